"""Months of GovSim's fishery per second without a model: `python -m benchmarks.govsim [GAMES]`.

Rule-based players write replies as a model would, and these are parsed as usual; the time of the players counts too.
"""

from __future__ import annotations

import sys
from time import perf_counter

from sottovoce.environments.govsim.fishery import Allocation, Game, starts
from sottovoce.environments.govsim.fishery_rules import Player, free_rider, greedy, play, sustainable
from sottovoce.environments.govsim.game_metrics import ended, metrics

ALLOCATIONS: tuple[Allocation, ...] = ("stochastic", "proportional")


def line(player: Player, how: Allocation, games: int) -> str:
    """Return the results and speed of games with the test split's start values and identical agents."""
    values = starts("test")
    drawn = [Game(start=values[i % len(values)], seed=str(i), allocation=how) for i in range(games)]
    began = perf_counter()
    worlds = [play(game, dict.fromkeys(game.agents, player)) for game in drawn]
    rate = sum(len(world["harvests"]) for world in worlds) / (perf_counter() - began)
    found = metrics([ended(game, world) for game, world in zip(drawn, worlds, strict=True)])
    return (
        f"{player.__name__}, {how}: {found.survival_rate:.0%} of {games} survive, {found.survival_time:.1f} months, "
        f"efficiency {found.efficiency:.2f}; {rate:,.0f} months/s"
    )


def main(games: int) -> None:
    """Print a line for each kind of player and each allocation."""
    for player in (sustainable, free_rider, greedy):
        for how in ALLOCATIONS:
            print(line(player, how, games))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
