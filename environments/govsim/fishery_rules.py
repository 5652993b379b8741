"""The rules of GovSim's fishery (Piatti et al., arXiv 2404.16698): harvest, collapse, regrowth and metrics.

In a month, all agents state their wishes in private, the harvest is allocated, they talk and reflect, and then the
game ends or the fish double. So agents also talk in the month of a collapse, and a reset of the talk returns to the
state after the harvest, without drawing again. The state is plain JSON, and each step returns a new one. A finished
game is measured by survival, gain, efficiency, equality and over-usage.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from typing_extensions import TypedDict

from sottovoce.core.bounds import Few
from sottovoce.environments.govsim.fishery import Allocation, Game


class Month(TypedDict):
    """One harvest, all in tons."""

    month: int
    """1-based."""
    pool: int
    """Tons in the lake before the harvest."""
    threshold: int
    """Most tons that each agent can catch without reducing the fish of the next month."""
    wanted: dict[str, int]
    caught: dict[str, int]
    left: int


class World(TypedDict):
    """The state of a game."""

    month: int
    """The current month, 1-based."""
    pool: Few
    """Current tons in the lake."""
    harvests: list[Month]


def first_state(game: Game) -> World:
    """Return the state before the first harvest."""
    return World(month=1, pool=game.start, harvests=[])


def threshold(pool: int, agents: int) -> int:
    """Return the sustainable tons for each agent: half of the lake divided equally, rounded down each time."""
    return pool // 2 // agents


def is_harvested(world: World) -> bool:
    """Return whether this month's harvest is done."""
    return len(world["harvests"]) == world["month"]


def harvest(game: Game, world: World, wishes: Mapping[str, int | None]) -> World:
    """Return the state after the wishes of all agents present; an unreadable wish (None) is 0.

    Wishes are limited to the tons in the lake, the range that agents may choose from.
    """
    present, pool = game.present(world["month"]), world["pool"]
    assert not is_harvested(world), "there is one harvest a month"
    assert set(wishes) == set(present), f"wishes of {sorted(wishes)}, expected {sorted(present)}"
    tons_wanted = {agent: max(0, min(wishes[agent] or 0, pool)) for agent in present}
    rng = random.Random(f"govsim/{game.seed}")  # used once per game: if agents want more than there is, nothing is left
    caught = allocate(pool, tons_wanted, game.allocation, rng)
    left = pool - sum(caught.values())
    done = Month(
        month=world["month"],
        pool=pool,
        threshold=threshold(pool, len(present)),
        wanted=tons_wanted,
        caught=caught,
        left=left,
    )
    return {**world, "pool": left, "harvests": [*world["harvests"], done]}


def has_collapsed(game: Game, world: World) -> bool:
    """Return whether the last harvest left too few fish."""
    return bool(world["harvests"]) and world["harvests"][-1]["left"] < game.collapse


def is_over(game: Game, world: World) -> bool:
    """Return whether the game is over: after a harvest that left too few fish, or the last month's."""
    return is_harvested(world) and (has_collapsed(game, world) or world["month"] >= game.months)


def next_month(game: Game, world: World) -> World:
    """Start the next month: the fish double, up to the number of the first month."""
    assert is_harvested(world) and not is_over(game, world), "a month begins after a harvest that left enough"
    return {**world, "month": world["month"] + 1, "pool": min(game.start, 2 * world["pool"])}


def report(done: Month) -> str:
    """Return the report of a harvest for all agents: the catch of each."""
    *others, last = [f"{agent} caught {_tons(tons)}" for agent, tons in done["caught"].items()]
    return f"Month {done['month']}: {', '.join(others)}{' and ' * bool(others)}{last}."


def own_catch(done: Month, agent: str) -> str:
    """Return the private report for one agent: the tons in the lake, its wish and its catch."""
    wanted, caught = _tons(done["wanted"][agent]), _tons(done["caught"][agent])
    return f"The lake held {_tons(done['pool'])}. You wanted {wanted} and caught {caught}."


def _tons(n: int) -> str:
    return f"{n} ton{'s' * (n != 1)}"


def allocate(pool: int, wishes: Mapping[str, int], how: Allocation, rng: random.Random) -> dict[str, int]:
    """Return the tons that each agent gets: its wish, unless the wishes exceed the pool, which is then shared out.

    No agent gets more than it wants. `stochastic` gives ton by ton to a random agent that still wants one;
    `proportional` gives shares in proportion to the wishes, rounded randomly so that they are exact on average.
    """
    total = sum(wishes.values())
    if total <= pool:
        return dict(wishes)
    caught = dict.fromkeys(wishes, 0)
    if how == "stochastic":
        for _ in range(pool):
            caught[rng.choice([agent for agent in wishes if caught[agent] < wishes[agent]])] += 1
        return caught
    # Systematic rounding: shares lie end to end on a line, and each gets the marks of a grid with a random offset.
    offset, so_far = rng.randrange(total), 0
    for agent, wish in wishes.items():
        before = (pool * so_far + offset) // total
        so_far += wish
        caught[agent] = (pool * so_far + offset) // total - before
    return caught


class Ended(NamedTuple):
    """Metrics of one finished game."""

    months: int
    """Survival time: the month of the collapse, or all months."""
    survived: bool
    """True if there was no collapse. A collapse in the last month counts as one, as in the authors' count of successful
    runs, although the survival time is then the same."""
    gains: dict[str, int]
    """Total tons that each agent caught."""
    efficiency: float
    """In [0, 1]: the total catch as a share of what a full lake yields when half is caught each month."""
    equality: float
    """One minus the Gini coefficient: from 1/n (one agent has all) to 1 (all have the same, or nothing was caught)."""
    over_usage: float
    """In [0, 1]: the share of catches above the threshold of their month."""


def ended(game: Game, world: World) -> Ended:
    """Return the metrics of a finished game; a newcomer's catches count from the month in which it joins."""
    assert is_over(game, world), "metrics are of games that are over"
    months, caught = len(world["harvests"]), [month["caught"] for month in world["harvests"]]
    gains = {agent: sum(month.get(agent, 0) for month in caught) for agent in game.agents}
    above = [tons > month["threshold"] for month in world["harvests"] for tons in month["caught"].values()]
    most = game.months * game.start / 2
    return Ended(
        months=months,
        survived=not has_collapsed(game, world),
        gains=gains,
        efficiency=1 - max(0.0, most - sum(gains.values())) / most,
        equality=equality([*gains.values()]),
        over_usage=fmean(above),
    )


def measures(game: Ended) -> dict[str, int | float | None]:
    """Return the metrics by name; `gain` is the mean over agents, in tons."""
    return {
        "survived": float(game.survived),
        "months": game.months,
        "gain": fmean(game.gains.values()),
        "efficiency": game.efficiency,
        "equality": game.equality,
        "over_usage": game.over_usage,
    }


def equality(gains: Sequence[int]) -> float:
    """Return one minus the Gini coefficient; 1 if all gains are 0."""
    if not sum(gains):
        return 1.0
    apart = sum(abs(gain - other_gain) for gain in gains for other_gain in gains)
    return 1 - apart / (2 * len(gains) * sum(gains))
