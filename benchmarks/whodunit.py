"""Games of WhoDunit per second without a model: `python -m benchmarks.whodunit [GAMES]`.

Perfect players write replies as a model would, and these are parsed as usual. The time includes drawing a game,
parsing, rules, tracking and the players; a second rate leaves the players out.
"""

from __future__ import annotations

import sys
from time import perf_counter
from typing import NamedTuple

from sottovoce.environments.whodunit import players
from sottovoce.environments.whodunit.actions import Malformed, read
from sottovoce.environments.whodunit.games import Game
from sottovoce.environments.whodunit.knowledge import known
from sottovoce.environments.whodunit.rules import first_state, is_over, step
from sottovoce.settings import WhoDunit


class Played(NamedTuple):
    """A game after its end."""

    won: bool
    sure: bool
    """Whether the winner was the only remaining character for the agent that chose it."""
    turns: int
    thought: float
    """Seconds that the players took."""


def played(settings: WhoDunit, game: Game) -> Played:
    """Play a game."""
    world, speakers, thought = first_state(game), settings.speakers(), 0.0
    while not is_over(world, settings.most_turns):
        agent = speakers[world["turn"] % len(speakers)]
        role, began = settings.role_of(agent), perf_counter()
        text = getattr(players, role)(game, world, agent, settings.words)
        thought += perf_counter() - began
        action = read(text, role, game, settings.words, settings.facts)
        assert not isinstance(action, Malformed), action
        _, world = step(game, world, agent, action, settings.words)
    sure = known(game, world, speakers[0])[agent].remaining == [game.winner]
    return Played(world["awarded"] == game.winner, sure, world["turn"], thought)


def main(games: int) -> None:
    """Print a line for each variant."""
    for settings in (WhoDunit(), WhoDunit(variant="sym")):
        began = perf_counter()
        ended = [played(settings, settings.game(str(seed))) for seed in range(games)]
        took, thought = perf_counter() - began, sum(each.thought for each in ended)
        won, sure = sum(each.won for each in ended), sum(each.won and each.sure for each in ended)
        turns = sum(each.turns for each in ended) / games
        rates = f"{games / took:,.0f} games/s, {games / (took - thought):,.0f} without the time of the players"
        alone = f"in {sure} of them only one character remained"
        print(f"{settings.variant}: {won} of {games} won in {turns:.1f} turns on average, {alone}; {rates}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
