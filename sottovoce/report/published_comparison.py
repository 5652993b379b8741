"""The table of a paper's figures next to the obtained ones."""

from __future__ import annotations

from collections.abc import Mapping

from sottovoce.analysis.compare import Comparison, Summary
from sottovoce.analysis.statistics import Mean, Share
from sottovoce.core.text import figure, one_line
from sottovoce.report.comparison import Table
from sottovoce.report.tables import percent

ACCURACY = "accuracy"
HEADINGS = ("run", "measure", "published", "obtained", "95 %")


def beside(published: Mapping[str, Mapping[str, float]], comparison: Comparison) -> list[Table]:
    """Return a table with a row for each published figure, or [] without any; cells of missing results stay empty."""
    runs = {run.run: run for run in comparison.runs}
    rows = [
        (name, one_line(measure), _told(value, measure), *_obtained(runs.get(name), measure))
        for name, figures in published.items()
        for measure, value in figures.items()
    ]
    return [Table(HEADINGS, tuple(rows))] if rows else []


def _obtained(run: Summary | None, measure: str) -> tuple[str, str]:
    found: Share | Mean | None = None
    if run is not None and measure == ACCURACY:
        found = run.accuracy
    elif run is not None and measure in run.measures:
        found = run.measures[measure].mean
    if found is None:
        return "", ""
    ends = [] if found.low is None or found.high is None else [_told(found.low, measure), _told(found.high, measure)]
    return _told(found.value, measure), " to ".join(ends)


def _told(value: float, measure: str) -> str:
    return percent(value) if measure == ACCURACY else figure(value)
