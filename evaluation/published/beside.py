"""Published figures beside those that were obtained, and in words whether they are within our intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sottovoce.evaluation.published.figures import Figure
from sottovoce.evaluation.published.kept import PERCENT
from sottovoce.evaluation.published.observed import observed
from sottovoce.evaluation.published.schema import Published
from sottovoce.evaluation.runs.run import Run
from sottovoce.evaluation.statistics import Mean, mean


@dataclass(frozen=True)
class Beside:
    """One published figure and ours."""

    row: str
    metric: str
    published: Figure | None
    """None where the paper prints none."""
    obtained: Mean | None
    """In the unit of the published one; None where nothing was obtained."""
    n: int = 0
    """Discussions."""
    why: str = ""
    """Why nothing was obtained, where it cannot be."""

    @property
    def words(self) -> str:
        """Whether the published figure is within our interval."""
        if self.obtained is None:
            return self.why or "not held"
        if self.published is None:
            return "not printed"
        low, high, printed = self.obtained.low, self.obtained.high, self.published.mean
        if low is None or high is None:
            return "no interval: all games are alike, or too few"
        if low <= printed <= high:
            return "the published figure is within our interval"
        return f"the published figure is {'above' if printed > high else 'below'} our interval"


def beside(table: Published, model: str, part: str, held: Mapping[str, Run]) -> list[Beside]:
    """Every row of one model and part, in the order of the file: what is printed, and what was obtained.

    Raises:
        UsageError: the extra `eval` is not installed.
    """
    figures, metrics = table.figures(model, part), _metrics(table, model, part)
    rows = dict.fromkeys([*figures, *table.rows_of(model, part)])
    found = [
        _one(table, row, metric, figures.get(row, {}).get(metric), held)
        for row in rows
        for metric in figures.get(row, metrics)
    ]
    return [each for each in found if each.published or each.obtained]


def _one(table: Published, row: str, metric: str, figure: Figure | None, held: Mapping[str, Run]) -> Beside:
    if row in table.missing:
        return Beside(row, metric, figure, None, why=f"cannot be held: {table.missing[row]}")
    what, scale = table.metrics[metric], PERCENT if metric in table.percent else 1
    made_of = table.best_of.get(row, [row])
    found = [_obtained([*observed(what, each, held)], scale) for each in made_of]
    best = max((each for each in found if each is not None), key=lambda each: each[0].value, default=None)
    if best is None:
        why = f"{what!r} is not measured" if any(each in held for each in made_of) else ""
        return Beside(row, metric, figure, None, why=why)
    return Beside(row, metric, figure, *best)


def _obtained(found: list[tuple[str, float]], scale: float) -> tuple[Mean, int] | None:
    if not found:
        return None
    ours = mean([value for _, value in found], [question for question, _ in found])
    low, high = (None if each is None else scale * each for each in (ours.low, ours.high))
    return Mean(scale * ours.value, low, high), len(found)


def _metrics(table: Published, model: str, part: str) -> list[str]:
    """Those that are printed of this part; all where none is."""
    printed = dict.fromkeys(metric for by in table.figures(model, part).values() for metric in by)
    return [*printed] or [*table.metrics]
