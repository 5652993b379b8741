"""The knowledge of each agent in a game of WhoDunit, for a reader: agents are not told.

A list of Intel is complete, as prompts say: it also rules out those who are not on it.
"""

from __future__ import annotations

from typing import NamedTuple

from sottovoce.environments.whodunit.games import Game, fitting
from sottovoce.environments.whodunit.rules import World
from sottovoce.environments.whodunit.wording import listed

FEW = 3
"""So many characters are named; of more there is only the number."""


class Known(NamedTuple):
    """What somebody could know."""

    clues: int
    """Of the Accuser: attributes of characters that Intel spoke about. Of a peer: facts, its own and shared ones."""
    remaining: list[int]
    """The characters whom these do not rule out, going by the truth."""


def known(game: Game, world: World, accuser: str) -> dict[str, Known]:
    """By agent: the Accuser, who alone has to find out, or all peers."""
    if game.agents is None:
        return {accuser: Known(len(world["revealed"]), world["remaining"])}
    shared = {(name, value) for name, value in world["shared"]}
    facts = {agent: sorted({*own, *shared}) for agent, own in game.agents.items()}
    return {agent: Known(len(each), fitting(game, each)) for agent, each in facts.items()}


def told(game: Game, world: World, accuser: str) -> str:
    """In a line: "who knows what: Beth 4 clues, 2 of 10 remain (3 and 7)"."""
    each = (f"{agent} {_told(found, game)}" for agent, found in known(game, world, accuser).items())
    return f"who knows what: {'; '.join(each)}"


def _told(found: Known, game: Game) -> str:
    left = len(found.remaining)
    names = f" ({listed(found.remaining)})" if 0 < left <= FEW else ""
    clues = f"{found.clues} clue{'s' * (found.clues != 1)}"
    return f"{clues}, {left} of {game.suspect_count} remain{'s' * (left == 1)}{names}"
