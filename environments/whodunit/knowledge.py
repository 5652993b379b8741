"""The state of a game of WhoDunit, what its published claims imply, and what each agent could know.

Claims may be false. As prompts say, a list of Intel is complete: it also describes those who are not on it. What agents
could know is judged by the truth; it is for people, and not shown to agents.
"""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import TypedDict

from sottovoce.core.text import counted
from sottovoce.environments.whodunit.actions import is_of_intel
from sottovoce.environments.whodunit.games import Game, fitting
from sottovoce.environments.whodunit.wording import listed

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
    """The Accuser's question; the last three fields are empty (0 or "") if it asked for anything."""

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
    """Keys of `blunders.BLUNDERS`."""
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
        said |= {
            (claim["attribute"], value, number): (number in claim["people"]) == claim["truth"] for number in numbers
        }
    return said


def ruled_out(game: Game, claims: Sequence[Claim]) -> set[int]:
    """Return the characters that differ from the winner according to the claims."""
    sought = game.person(game.winner)
    said = believed(game, claims).items()
    return {number for (name, value, number), so in said if so != (sought[name] == value)}


def known(game: Game, world: World, accuser: str) -> dict[str, tuple[int, list[int]]]:
    """Return what agents could know: only the Accuser in the asymmetric game, or all peers.

    It is a number of clues, and the characters that these do not rule out, judged by the truth. Clues are attributes of
    characters that Intel spoke about, or a peer's own and shared facts.
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
