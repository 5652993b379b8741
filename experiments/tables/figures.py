"""Figures as papers print them: a number, a mean with its spread, or one number per run.

Nothing here imports torch or langgraph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from sottovoce.core.errors import UsageError

MEAN, SPREAD = "mean", "spread"
Figures = dict[str, dict[str, "Figure"]]
"""By row and metric."""


@dataclass(frozen=True)
class Figure:
    """One figure of a table."""

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
        return ", ".join(f"{each:g}" for each in self.runs) + spread


def figure_of(given: Any) -> Figure:  # Any: parsed YAML
    """Return a figure from a file: 0.61, [57.8, 62.8] or {mean: 60.0, spread: 2.3}.

    Raises:
        UsageError: the value has another form.
    """
    if isinstance(given, Mapping) and set(given) == {MEAN, SPREAD} and all(map(_is_number, given.values())):
        return Figure((float(given[MEAN]),), float(given[SPREAD]))
    runs = given if isinstance(given, list) else [given]
    if not runs or not all(map(_is_number, runs)):
        raise UsageError(f"a figure is {given!r}; expected a number, one per run, or {{mean: 60.0, spread: 2.3}}")
    return Figure(tuple(map(float, runs)))


def by_metric(given: Any, first: str) -> dict[str, Figure]:  # Any: parsed YAML
    """Return the figures of a row by metric; a figure without a metric belongs to `first`.

    Raises:
        UsageError: see `figure_of`.
    """
    if isinstance(given, Mapping) and MEAN not in given:
        return {str(name): figure_of(each) for name, each in given.items()}
    return {first: figure_of(given)}


def _is_number(given: object) -> bool:
    return isinstance(given, (int, float)) and not isinstance(given, bool)
