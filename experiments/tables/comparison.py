"""Published figures beside obtained ones, with the difference in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sottovoce.analysis.power import TwoSamples
from sottovoce.analysis.statistics import Mean, mean
from sottovoce.core.text import figure
from sottovoce.experiments.tables.difference import difference
from sottovoce.experiments.tables.figures import Figure
from sottovoce.experiments.tables.observed import GAIN, observed
from sottovoce.experiments.tables.saved_figures import PERCENT
from sottovoce.experiments.tables.table_schema import Published
from sottovoce.runs.run import Run


@dataclass(frozen=True)
class Beside:
    """One published figure and ours."""

    row: str
    metric: str
    published: Figure | None
    """None if the paper prints none."""
    obtained: Mean | None
    """In the unit of the published figure; None if nothing was obtained."""
    n: int = 0
    """Number of discussions."""
    why: str = ""
    """Why nothing can be obtained; empty if it can."""
    difference: TwoSamples | None = None
    """Difference from the published figure, in its unit; None if an error is unknown."""

    @property
    def words(self) -> str:
        """Return the difference in words, or the difference that would have been found."""
        if self.obtained is None:
            return self.why or "not run"
        if self.published is None:
            return "not printed"
        if self.difference is None:
            return "cannot be compared: the paper prints no error"
        found = self.difference
        by = f"{figure(found.value)} ({figure(found.low)} to {figure(found.high)})"
        if found.differs:
            return f"differs by {by}"
        if found.smallest is None:
            return f"no difference shown: {by}; too few questions to show any"
        return f"no difference shown: {by}; a true difference of {figure(found.smallest)} would show in 4 of 5 cases"


def beside(table: Published, model: str, part: str, held: Mapping[str, Run]) -> list[Beside]:
    """Return the published and the obtained figures of one model and part, row by row in the order of the file.

    Raises:
        UsageError: the extra `eval` is not installed.
    """
    figures, metrics = table.figures(model, part), _metrics(table, model, part)
    rows = dict.fromkeys([*figures, *table.rows_of(model, part)])
    found = [
        _one(table, part, row, metric, figures.get(row, {}).get(metric), held)
        for row in rows
        for metric in figures.get(row, metrics)
    ]
    return [each for each in found if each.published or each.obtained]


def _one(table: Published, part: str, row: str, metric: str, printed: Figure | None, held: Mapping[str, Run]) -> Beside:
    if row in table.missing:
        return Beside(row, metric, printed, None, why=f"cannot be run: {table.missing[row]}")
    what, scale = table.metrics[metric], PERCENT if metric in table.percent else 1
    made_of = table.best_of.get(row, [row])
    found = [_obtained([*observed(what, each, held)], scale) for each in made_of]
    best = max((each for each in found if each is not None), key=lambda each: each[0].value, default=None)
    if best is None:
        why = f"{what!r} is not measured" if any(each in held for each in made_of) else ""
        return Beside(row, metric, printed, None, why=why)
    ours, discussions, questions = best
    gain, n = bool(GAIN.fullmatch(what)), table.parts[part].get("limit")
    by = None if printed is None else difference(ours, questions, printed, n, table.error, gain=gain, scale=scale)
    return Beside(row, metric, printed, ours, discussions, difference=by)


def _obtained(found: list[tuple[str, float]], scale: float) -> tuple[Mean, int, int] | None:
    """Return the mean, the number of discussions and the number of questions."""
    if not found:
        return None
    questions = [question for question, _ in found]
    ours = mean([value for _, value in found], questions)
    low, high = (None if each is None else scale * each for each in (ours.low, ours.high))
    return Mean(scale * ours.value, low, high), len(found), len({*questions})


def _metrics(table: Published, model: str, part: str) -> list[str]:
    """Return the metrics that are printed for this part; all metrics if nothing is printed."""
    printed = dict.fromkeys(metric for by in table.figures(model, part).values() for metric in by)
    return [*printed] or [*table.metrics]
