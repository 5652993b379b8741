"""Rule-based players of WhoDunit that know only what their role knows: an upper bound, and a "golden" Intel.

They write texts as a model does. The Accuser assumes that a list of Intel is complete, which this Intel's always is.
"""

from __future__ import annotations

import json

from sottovoce.environments.whodunit.games import Game, fitting
from sottovoce.environments.whodunit.knowledge import World
from sottovoce.environments.whodunit.wording import Wording


def accuser(game: Game, world: World, agent: str, wording: Wording) -> str:
    """Ask for anything until only one character fits the winner's description, then award it."""
    sought, left = game.person(game.winner), list(range(1, game.suspect_count + 1))
    for claim in world["claims"]:
        fits = (sought[claim["attribute"]] == claim["value"]) == claim["truth"]
        said = claim["people"]
        left = [number for number in left if (number in said) == fits] if claim["broad"] or not fits else left
    if len(left) == 1:
        return json.dumps({"thoughts": "One is left.", "action": 3, wording.person: left[0]})
    return json.dumps({"thoughts": "Several are left.", "action": 2})


def intel(game: Game, world: World, agent: str, wording: Wording) -> str:
    """Reply with the value whose list best splits the characters that no list has distinguished so far."""
    spoken = {(claim["attribute"], claim["value"]) for claim in world["claims"] if claim["broad"]}
    best = min(
        ((name, value) for name in game.names for value in game.values(name) if (name, value) not in spoken),
        key=lambda fact: _together(game, [*spoken, fact]),
        default=next(iter(spoken), ("", "")),
    )
    people = [number for number in range(1, game.suspect_count + 1) if game.has(number, *best)]
    reply = {"thoughts": "This tells most.", "action": 2, "value": "-".join(best), wording.person: people or [0]}
    return json.dumps(reply)


def peer(game: Game, world: World, agent: str, wording: Wording) -> str:
    """Award the only character that fits all known facts; else share the new fact that rules out most, or skip."""
    own, shared = (game.agents or {})[agent], [(name, value) for name, value in world["shared"]]
    left = fitting(game, [*own, *shared])
    if len(left) == 1:
        return json.dumps({"thoughts": "One is left.", "action": 2, wording.person: left[0]})
    new = [number for number, fact in enumerate(own, 1) if fact not in shared]
    if not new:
        return json.dumps({"thoughts": "I know nothing new.", "action": 3})
    telling = min(new, key=lambda number: len(fitting(game, [*shared, own[number - 1]])))
    return json.dumps({"thoughts": "This is new.", "action": 1, "fact": telling})


def _together(game: Game, known: list[tuple[str, str]]) -> int:
    """Count ordered pairs of characters that these values do not distinguish."""
    signs: dict[tuple[bool, ...], int] = {}
    for number in range(1, game.suspect_count + 1):
        sign = tuple(game.has(number, *fact) for fact in known)
        signs[sign] = signs.get(sign, 0) + 1
    return sum(n * (n - 1) for n in signs.values())
