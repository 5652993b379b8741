"""The state of a game of WhoDunit: the meaning of claims, the knowledge that agents could have, blunders, metrics.

Claims may be false. As prompts say, a list of Intel is complete, so it also describes the characters that are not on
it. Possible knowledge and blunders (arXiv 2502.05986, section 6) are judged by the truth; they are for people, not for
agents.

Classes of blunders: hallucination, a published claim is false; collapse, an agent asks or shares something again; role
loss, an agent acts in the other role; recall failure, an agent ignores what was published. A wrong award to a character
that nothing published ruled out has no class. The means of the metrics over games are the paper's success, precision
and length.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from typing_extensions import TypedDict

from sottovoce.core.text import counted
from sottovoce.environments.whodunit.actions import is_of_intel, listed
from sottovoce.environments.whodunit.games import Game, fitting

FEW = 3
"""Most characters that are named; with more, only their number is shown."""


class Claim(TypedDict):
    """A statement of Intel, true or not."""

    attribute: str
    value: str
    people: list[int]
    truth: bool
    """False if the claim says that the characters do not have the value."""
    broad: bool
    """True for a list of all who have the value."""


class Request(TypedDict):
    """The Accuser's question; the last three fields are empty (0 or "") if the question was general."""

    general: bool
    person: int
    attribute: str
    value: str


class Done(TypedDict):
    """The record of a turn, judged by the truth."""

    turn: int
    """1-based."""
    agent: str
    action: str
    blunders: list[str]
    """Keys of `BLUNDERS`."""
    impact: int
    """Number of characters that it ruled out."""
    best: int
    """Largest number that the agent could have ruled out."""


class World(TypedDict):
    """The state of a game. A reset restores all of it."""

    turn: int
    """Number of turns taken."""
    request: Request | None
    """The question that Intel has to answer."""
    claims: list[Claim]
    shared: list[list[str]]
    """Shared facts: attribute and value."""
    remaining: list[int]
    """Characters not ruled out by what was revealed, judged by the truth and not by the claims."""
    revealed: list[list[str | int]]
    """Attribute and character of everything that Intel spoke about."""
    done: list[Done]
    awarded: int | None
    cancelled: str
    """Why the game was cancelled; empty if it was not."""


def claimed(game: Game, claim: Claim) -> str | None:
    """Return the value that a claim is about; None if it names no value at all, as in "does 3 wear a yes hat?".

    A value that no character has is returned as written: a claim that a character has it is false.
    """
    value = game.meant(claim["attribute"], claim["value"])
    return value if value or is_of_intel(claim["value"], game.names) else claim["value"]


def believed(game: Game, claims: Sequence[Claim]) -> dict[tuple[str, str, int], bool]:
    """Return by attribute, value and character whether the claims say so; if two differ, the later one counts."""
    said: dict[tuple[str, str, int], bool] = {}
    for claim in claims:
        value = claimed(game, claim)
        if value is None:
            continue
        numbers = range(1, game.suspect_count + 1) if claim["broad"] else claim["people"]
        for number in numbers:
            said[claim["attribute"], value, number] = (number in claim["people"]) == claim["truth"]
    return said


def ruled_out(game: Game, claims: Sequence[Claim]) -> set[int]:
    """Return the characters that differ from the winner according to the claims."""
    sought = game.person(game.winner)
    said = believed(game, claims).items()
    return {number for (name, value, number), so in said if so != (sought[name] == value)}


def known(game: Game, world: World, accuser: str) -> dict[str, tuple[int, list[int]]]:
    """Return the knowledge that agents could have: only the Accuser in the asymmetric game, or all peers.

    Knowledge is a number of clues, and the characters that these do not rule out, judged by the truth. Clues are
    attributes of characters that Intel spoke about, or a peer's own and shared facts.
    """
    if game.agents is None:
        return {accuser: (len(world["revealed"]), world["remaining"])}
    shared = {(name, value) for name, value in world["shared"]}
    facts = {agent: sorted({*own, *shared}) for agent, own in game.agents.items()}
    return {agent: (len(known_facts), fitting(game, known_facts)) for agent, known_facts in facts.items()}


def described_knowledge(game: Game, world: World, accuser: str) -> str:
    """Return the knowledge in one line: "who knows what: Beth 4 clues, 2 of 10 remain (3 and 7)"."""
    parts = []
    for agent, (clues, left) in known(game, world, accuser).items():
        names = f" ({listed(left)})" if 0 < len(left) <= FEW else ""
        remain = f"{len(left)} of {game.suspect_count} remain{'s' * (len(left) == 1)}{names}"
        parts.append(f"{agent} {counted(clues, 'clue')}, {remain}")
    return f"who knows what: {'; '.join(parts)}"


BLUNDERS = {
    "known": "it was said already",
    "eliminated": "it is about a character whom published claims rule out",
    "wrong_award": "the award is wrong",
    "wrong_info": "it is not true",
    "left_out": "its list leaves out a character who has that value",
    "mismatch": "a yes or no, where anything was asked for",
    "out_of_range": "it names characters that there are not",
    "other_role": "it is what the other role says",
}
CLASSES = {
    "wrong_info": "hallucination",
    "left_out": "hallucination",
    "out_of_range": "hallucination",
    "known": "collapse",
    "other_role": "role loss",
    "mismatch": "recall failure",
    "eliminated": "recall failure",
}
"""The class of a turn, or of a monitor's trigger, by its blunder; with several blunders, the first in this order."""
NOTES = {
    name: f"blunder ({CLASSES[name]}): {what}" if name in CLASSES else f"blunder: {what}"
    for name, what in BLUNDERS.items()
}
"""For each blunder, the note for people on a message."""


def class_noted(notes: Collection[str]) -> str:
    """Return the class of a turn from the blunders in its message's notes; "none" if no blunder has a class."""
    return next((CLASSES[name] for name in CLASSES if NOTES[name] in notes), "none")


def measures(game: Game, world: World, turns: int, resets: int) -> dict[str, int | float | None]:
    """Return the metrics of a game that is over, by name; a cancelled game is a failure.

    Success is 1 for a right award, else 0. Precision is None for a game without an award, so that its mean is over the
    games with an award. `turns` counts all turns, including those before a reset; a turn that a reset replaced counts
    as one.
    """
    right, is_cancelled = float(world["awarded"] == game.winner), bool(world["cancelled"])
    return {
        "success": right,
        "precision": None if world["awarded"] is None else right,
        "turns": turns,
        "cancelled": float(is_cancelled),
        "resets": resets,
        "unreadable": int(is_cancelled),  # a turn that cannot be read cancels the game
    }
