"""The rules of WhoDunit (arXiv 2502.05986, section 4 and appendix B): actions, their published texts, and the end.

Asymmetric: the Accuser knows the winner's description and Intel knows all characters. They take turns, and Intel's
claims are published unchecked. A list of Intel is complete: characters that are not on it do not have the value.
Symmetric: all agents know all characters and some facts each, and act in turn. The state is plain JSON, and a turn
returns a new one. It also records what agents could know by the truth, and their blunders.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence

from sottovoce.environments.whodunit.actions import Action, Wording, clause, fact, is_of_intel, listed, question
from sottovoce.environments.whodunit.games import Game, fitting
from sottovoce.environments.whodunit.knowledge import Claim, Done, Request, World, believed, claimed, ruled_out

RETRIES = 20
"""Most retries after an unreadable reply, each with one line that says what was wrong."""
VALUES = re.compile(r'"action"\s*:[^{}]*(?=\})')
"""An action from its number to the end of its object."""
KEYS: dict[str, tuple[str, ...]] = {
    "ask": ("person", "property", "value"),
    "ask_general": (),
    "award": ("person",),
    "answer": ("value",),
    "broad": ("value", "person"),
    "share": ("fact",),
}
"""The keys of an action that are published."""


def first_state(game: Game) -> World:
    """Return the state before the first turn."""
    everybody = list(range(1, game.suspect_count + 1))
    return World(
        turn=0,
        request=None,
        claims=[],
        shared=[],
        remaining=everybody,
        revealed=[],
        done=[],
        awarded=None,
        cancelled="",
    )


def is_over(world: World, turns: int) -> bool:
    """Return whether the game is over: after an award, an unreadable turn, or the last turn."""
    return world["awarded"] is not None or bool(world["cancelled"]) or world["turn"] >= turns


def cancelled(world: World, agent: str, why: str) -> World:
    """Return the state after a turn that stayed unreadable after all retries."""
    return {**world, "turn": world["turn"] + 1, "cancelled": f"{agent} could not be understood: {why}"}


def passed(world: World, agent: str) -> World:
    """Return the state after a turn without a statement; the question stays unanswered."""
    turn = world["turn"] + 1
    done = Done(turn=turn, agent=agent, action="nothing", blunders=[], impact=0, best=0)
    return {**world, "turn": turn, "request": None, "done": [*world["done"], done]}


def step(game: Game, world: World, agent: str, action: Action, wording: Wording) -> tuple[str, World]:
    """Return the text that an action publishes (empty for none), and the next state."""
    assert world["awarded"] is None and not world["cancelled"], "nothing happens after the end"
    published, changed = _published(game, world, agent, action, wording)
    after: World = {**world, "turn": world["turn"] + 1, **changed}  # type: ignore[typeddict-item]  # keys of World
    impact = len(world["remaining"]) - len(after["remaining"])
    done = Done(
        turn=after["turn"],
        agent=agent,
        action=action.verb,
        blunders=_blunders(game, world, agent, action),
        impact=impact,
        best=max(_best(game, world, agent, action), impact),
    )
    return published, {**after, "done": [*world["done"], done]}


def values_in(text: str, keys: Collection[str], place: tuple[int, int]) -> tuple[int, int] | None:
    """Return the span of an action's values in its object; None if thoughts or other keys are among them.

    >>> text = 'Hm. Action: {"action": 3, "character": 2}'
    >>> text[slice(*values_in(text, ["action", "character"], (12, len(text))))]
    '"action": 3, "character": 2'
    """
    found = VALUES.search(text, *place)
    if found is None or not set(re.findall(r'"(\w+)"\s*:', found[0])) <= {*keys}:
        return None
    return found.start(), found.start() + len(found[0].rstrip())


def _published(game: Game, world: World, agent: str, action: Action, wording: Wording) -> tuple[str, dict[str, object]]:
    who = f"{wording.person} {action.person}"
    match action.verb:
        case "ask":
            request = Request(general=False, person=action.person, attribute=action.attribute, value=action.value)
            return f"{agent} asks: {question(action.attribute, action.value, who)}", {"request": request}
        case "ask_general":
            request = Request(general=True, person=0, attribute="", value="")
            return f"{agent} asks for anything that helps.", {"request": request}
        case "award":
            return f"{agent} {wording.awards} {who}.", {"awarded": action.person}
        case "answer" | "broad":
            return _reply(game, world, agent, action, wording)
        case "share":
            name, value = (game.agents or {})[agent][action.fact - 1]
            shared = [*world["shared"], [name, value]]
            remaining = fitting(game, [(a, b) for a, b in shared])
            return f"{agent}: {fact(name, value, wording)}", {"shared": shared, "remaining": remaining}
    return "", {}


def _reply(game: Game, world: World, agent: str, action: Action, wording: Wording) -> tuple[str, dict[str, object]]:
    """Publish Intel's reply as a claim. A yes or no without a specific question claims nothing."""
    claim = _claim(world, action)
    if claim is None:
        return f"{agent} is unable to answer.", {"request": None}
    existing = [number for number in claim["people"] if 1 <= number <= game.suspect_count]
    cells: list[list[str | int]] = [[claim["attribute"], number] for number in existing]
    value, everybody = claimed(game, claim), range(1, game.suspect_count + 1)
    said_of = everybody if claim["broad"] else existing
    left = world["remaining"] if value is None else _left(game, world["remaining"], claim["attribute"], value, said_of)
    changed: dict[str, object] = {
        "request": None,
        "claims": [*world["claims"], claim],
        "revealed": [*world["revealed"], *(cell for cell in cells if cell not in world["revealed"])],
        "remaining": left,
    }
    name, value, people = claim["attribute"], claim["value"], claim["people"]
    many = claim["broad"] and len(people) > 1
    who = f"{wording.person}{'s' * many} {listed(people)}" if people else f"no {wording.person}"
    return f"{agent}: {who} {clause(name, value, truth=claim['truth'], many=many)}.", changed


def _claim(world: World, action: Action) -> Claim | None:
    if action.verb == "broad":
        people = list(action.people)
        return Claim(attribute=action.attribute, value=action.value, people=people, truth=True, broad=True)
    request = world["request"]
    if request is None or request["general"]:
        return None
    name, value, people = request["attribute"], request["value"], [request["person"]]
    return Claim(attribute=name, value=value, people=people, truth=action.truth, broad=False)


def _left(game: Game, remaining: Sequence[int], name: str, value: str, people: Sequence[int]) -> list[int]:
    """Return the characters that remain once it is known whether these have the value."""
    sought = game.has(game.winner, name, value)
    return [number for number in remaining if number not in people or game.has(number, name, value) == sought]


def _blunders(game: Game, world: World, agent: str, action: Action) -> list[str]:
    blunders: dict[str, bool] = {}
    match action.verb:
        case "ask":
            blunders["known"] = _is_known(game, world, action)
            blunders["eliminated"] = action.person in ruled_out(game, world["claims"])
            blunders["other_role"] = is_of_intel(action.value, game.names)
        case "award":
            blunders["wrong_award"] = action.person != game.winner
            fits = fitting(game, [(name, value) for name, value in world["shared"]])
            blunders["eliminated"] = action.person not in fits or action.person in ruled_out(game, world["claims"])
        case "share":
            blunders["known"] = [*(game.agents or {})[agent][action.fact - 1]] in world["shared"]
        case "answer" | "broad":
            claim = _claim(world, action)
            blunders["mismatch"] = claim is None
            blunders |= _untrue(game, world, claim) if claim else {}
    return [name for name, is_so in blunders.items() if is_so]


def _untrue(game: Game, world: World, claim: Claim) -> dict[str, bool]:
    existing = [number for number in claim["people"] if 1 <= number <= game.suspect_count]
    name, value = claim["attribute"], claimed(game, claim)
    others = {*range(1, game.suspect_count + 1)} - {*existing}
    return {
        "wrong_info": value is not None and any(game.has(number, name, value) != claim["truth"] for number in existing),
        "left_out": value is not None and claim["broad"] and any(game.has(number, name, value) for number in others),
        "out_of_range": len(existing) < len(claim["people"]),
        "known": claim["broad"] and bool(existing) and all([name, number] in world["revealed"] for number in existing),
    }


def _is_known(game: Game, world: World, action: Action) -> bool:
    """Return whether claims already say if a character has this value, or that it has another one."""
    said = believed(game, world["claims"])
    value = game.meant(action.attribute, action.value) or action.value
    has = {of for (name, of, number), so in said.items() if so and (name, number) == (action.attribute, action.person)}
    return bool(has) or (action.attribute, value, action.person) in said


def _best(game: Game, world: World, agent: str, action: Action) -> int:
    """Return how many characters the agent's best true statement would rule out now."""
    left = world["remaining"]
    if action.verb in ("answer", "broad"):
        cells = {(name, game.person(number)[name]) for name in game.names for number in left}
        return max(len(left) - len(_left(game, left, *cell, left)) for cell in cells)
    if action.verb in ("share", "skip"):
        facts, own = [(name, value) for name, value in world["shared"]], (game.agents or {})[agent]
        return max(len(left) - len(fitting(game, [*facts, own_fact])) for own_fact in own)
    return 0


def golden_reply(game: Game, world: World, wording: Wording) -> str:
    """Return a rule-based reply for Intel: the list that best splits the characters that still look alike."""
    spoken = {(claim["attribute"], claim["value"]) for claim in world["claims"] if claim["broad"]}
    best = min(
        ((name, value) for name in game.names for value in game.values(name) if (name, value) not in spoken),
        key=lambda fact: _together(game, [*spoken, fact]),
        default=next(iter(spoken), ("", "")),
    )
    people = [number for number in range(1, game.suspect_count + 1) if game.has(number, *best)]
    reply = {"thoughts": "This tells most.", "action": 2, "value": "-".join(best), wording.person: people}
    return json.dumps(reply)


def _together(game: Game, known: list[tuple[str, str]]) -> int:
    """Count ordered pairs of characters that these values do not distinguish."""
    signs: dict[tuple[bool, ...], int] = {}
    for number in range(1, game.suspect_count + 1):
        sign = tuple(game.has(number, *fact) for fact in known)
        signs[sign] = signs.get(sign, 0) + 1
    return sum(n * (n - 1) for n in signs.values())
