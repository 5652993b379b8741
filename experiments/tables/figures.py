"""Figures as papers print them, and the file of them in an experiment's folder, so that reports do not need the table.

Nothing here imports torch or langgraph.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from sottovoce.core.any_types import JSON, JSONValue
from sottovoce.core.errors import RecordError, UsageError
from sottovoce.core.files import text_of

FILE = "published.json"
MEAN, SPREAD = "mean", "spread"
ACCURACY = "accuracy"
"""The name of the mean score in reports."""
PERCENT = 100
Figures = dict[str, dict[str, "Figure"]]
"""By row and metric."""


@dataclass(frozen=True)
class Figure:
    """One figure of a table: a number, a mean with its spread, or one number per run."""

    runs: tuple[float, ...]
    """As printed: one number, or one per run."""
    spread: float | None = None
    """As printed after the mean; not every paper says what it measures."""

    @property
    def mean(self) -> float:
        """The figure, or the mean over all runs."""
        return fmean(self.runs)

    @property
    def words(self) -> str:
        """The figure as printed: "60 ± 2.3", "57.8, 62.8"."""
        spread = "" if self.spread is None else f" ± {self.spread:g}"
        return ", ".join(f"{run:g}" for run in self.runs) + spread


def figure_of(value: JSONValue) -> Figure:
    """Return a figure from a file: 0.61, [57.8, 62.8] or {mean: 60.0, spread: 2.3}.

    Raises:
        UsageError: the value has another form.
    """
    if isinstance(value, Mapping) and set(value) == {MEAN, SPREAD} and all(map(_is_number, value.values())):
        return Figure((float(value[MEAN]),), float(value[SPREAD]))
    runs = value if isinstance(value, list) else [value]
    if not runs or not all(map(_is_number, runs)):
        raise UsageError(f"a figure is {value!r}; expected a number, one per run, or {{mean: 60.0, spread: 2.3}}")
    return Figure(tuple(map(float, runs)))


def by_metric(value: JSONValue, first: str) -> dict[str, Figure]:
    """Return the figures of a row by metric; a figure without a metric belongs to `first`.

    Raises:
        UsageError: see `figure_of`.
    """
    if isinstance(value, Mapping) and MEAN not in value:
        return {str(name): figure_of(figure) for name, figure in value.items()}
    return {first: figure_of(value)}


def in_our_units(folder: Path) -> dict[str, dict[str, float]]:
    """Return the published figures of an experiment that `experiment reproduce` ran; {} for any other.

    They are by row and "accuracy" (the score) or the name of a measure of results, with shares from 0 to 1. Other
    metrics, such as an agent's answers in a round, are left out.

    Raises:
        RecordError: the file is damaged.
    """
    path = folder / FILE
    if not path.exists():
        return {}
    try:
        content: JSON = json.loads(text_of(path))
        metrics = {name: value for name, value in content["metrics"].items() if " " not in value}
        scales = {name: PERCENT if name in content["percent"] else 1 for name in metrics}
        return {
            row: {
                ACCURACY if metrics[metric] == "score" else metrics[metric]: figure.mean / scales[metric]
                for metric, figure in by_metric(by, "").items()
                if metric in metrics
            }
            for row, by in content["rows"].items()
        }
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError, UsageError) as error:
        raise RecordError(f"{str(path)!r} is damaged; run the experiment again to rewrite it") from error


def as_json(figure: Figure) -> object:
    """Return a figure in the form that `figure_of` reads."""
    return list(figure.runs) if figure.spread is None else {MEAN: figure.mean, SPREAD: figure.spread}


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
