"""The knowledge of each agent in a game of WhoDunit, for people; it is not shown to agents.

As prompts say, a list of Intel is complete: it also describes those who are not on it.
"""

from __future__ import annotations

from typing import NamedTuple

from sottovoce.environments.whodunit.games import Game, fitting
from sottovoce.environments.whodunit.rules import World
from sottovoce.environments.whodunit.wording import listed

FEW = 3
"""Most characters that are named; with more, only their number is shown."""


class Known(NamedTuple):
    """The knowledge that an agent could have."""

    clues: int
    """For the Accuser, attributes of characters that Intel spoke about; for a peer, its own and shared facts."""
    remaining: list[int]
    """Characters that these do not rule out, judged by the truth."""


def known(game: Game, world: World, accuser: str) -> dict[str, Known]:
    """Return the knowledge by agent: only of the Accuser in the asymmetric game, or of all peers."""
    if game.agents is None:
        return {accuser: Known(len(world["revealed"]), world["remaining"])}
    shared = {(name, value) for name, value in world["shared"]}
    facts = {agent: sorted({*own, *shared}) for agent, own in game.agents.items()}
    return {agent: Known(len(each), fitting(game, each)) for agent, each in facts.items()}


def told(game: Game, world: World, accuser: str) -> str:
    """Return the knowledge in one line: "who knows what: Beth 4 clues, 2 of 10 remain (3 and 7)"."""
    each = (f"{agent} {_told(found, game)}" for agent, found in known(game, world, accuser).items())
    return f"who knows what: {'; '.join(each)}"


def _told(found: Known, game: Game) -> str:
    left = len(found.remaining)
    names = f" ({listed(found.remaining)})" if 0 < left <= FEW else ""
    clues = f"{found.clues} clue{'s' * (found.clues != 1)}"
    return f"{clues}, {left} of {game.suspect_count} remain{'s' * (left == 1)}{names}"
