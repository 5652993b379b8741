"""Measures that worlds take of their games, averaged over the games that each measure applies to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean

from sottovoce.analysis.statistics import Mean, mean
from sottovoce.core.text import counted, figure, one_line
from sottovoce.runs.results import Result

Games = list[tuple[str, float]]
"""The question of each game, and the game's value of a measure."""


@dataclass(frozen=True)
class Measured:
    """A measure over games."""

    mean: Mean
    games: int
    """The number of games it applies to."""


def by_name(results: Iterable[Result]) -> dict[str, Games]:
    """Return the games of each measure, in order of first appearance; [] if a measure applies to none."""
    games_by_measure: dict[str, Games] = {}
    for result in results:
        for name, value in result.measures.items():
            games_by_measure.setdefault(name, []).extend([] if value is None else [(result.question, value)])
    return games_by_measure


def measured(results: Iterable[Result]) -> dict[str, Measured]:
    """Return the mean of each measure that applies to any game, with an interval clustered by question.

    Raises:
        UsageError: the extra `eval` is not installed.
    """
    return {
        name: Measured(mean([value for _, value in games], [question for question, _ in games]), len(games))
        for name, games in by_name(results).items()
        if games
    }


def mean_line(results: Iterable[Result]) -> str:
    """Format all means in a line, without intervals: "success 0.6, precision 0.75 (of 16 games), turns 12.4"."""
    games_by_measure = by_name(results)
    most = max((len(games) for games in games_by_measure.values()), default=0)
    return ", ".join(_mean_of(name, [value for _, value in games], most) for name, games in games_by_measure.items())


def game_line(measures: Mapping[str, float | None]) -> str:
    """Format the measures of one game in a line, without those that do not apply."""
    return ", ".join(f"{one_line(name)} {figure(value)}" for name, value in measures.items() if value is not None)


def _mean_of(name: str, values: list[float], most: int) -> str:
    if not values:
        return f"{one_line(name)} of no game"
    fewer = f" (of {counted(len(values), 'game')})" if len(values) < most else ""
    return f"{one_line(name)} {figure(fmean(values))}{fewer}"
