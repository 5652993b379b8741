"""SVG plots of search results: the same bytes for the same results, without changes to matplotlib's global state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import StringIO
from math import ceil, floor
from pathlib import Path

from sottovoce.analysis.statistics import Mean
from sottovoce.core.any_types import Unimported
from sottovoce.core.errors import UsageError
from sottovoce.core.outputs import write

SALT = "sottovoce"
"""Matplotlib derives ids from it; they are random otherwise."""
CHOSEN, OTHER = "tab:blue", "tab:gray"
NARROWEST = 0.1
"""Minimum range of a color bar, so that equal shares get one color and the bar does not end above 1."""
ROUNDING = 1e-9
TICKS = 7
"""Maximum number of labeled temperatures of a grid on each axis."""


@contextmanager
def figure(path: Path, width: float, height: float) -> Iterator[Unimported]:
    """Yield a figure of this size in inches and write it to `path` on exit.

    Raises:
        UsageError: the extra `eval` is not installed.
        RecordError: the file cannot be written.
    """
    try:
        import matplotlib
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError("plots need the extra 'eval', which is not installed: pip install matplotlib") from error
    drawn, text = Figure(figsize=(width, height), layout="constrained"), StringIO()
    FigureCanvasSVG(drawn)
    yield drawn
    with matplotlib.rc_context({"svg.hashsalt": SALT}):  # restored on exit
        drawn.savefig(text, format="svg", metadata={"Date": None})
    write(path, text.getvalue())


def bars(path: Path, scores: Mapping[int, Mean], best: int, label: str) -> None:
    """Plot each layer's score with its 95 % interval; the best layer is highlighted."""
    places, shown = range(len(scores)), list(scores.values())
    # Bounds and means come from different sums: a mean of 1 may exceed its upper bound by a rounding error.
    reach = [
        [0.0 if end is None else max(0.0, sign * (end - score.value)) for score, end in zip(shown, ends, strict=True)]
        for sign, ends in ((-1, [score.low for score in shown]), (1, [score.high for score in shown]))
    ]
    with figure(path, max(4.0, 1.5 + 0.3 * len(shown)), 3.2) as drawn:
        axes = drawn.add_subplot()
        colors = [CHOSEN if layer == best else OTHER for layer in scores]
        axes.bar(places, [score.value for score in shown], color=colors, yerr=reach, capsize=2)
        axes.set_xticks(places, [str(layer) for layer in scores])
        axes.set_xlabel("layer (0-based)")
        axes.set_ylabel(label)


def span_of(shares: Sequence[float]) -> tuple[float, float]:
    """Return the ends of a color bar for shares: multiples of 0.05 in [0, 1], at least 0.1 apart."""
    low, high = floor(min(shares) * 20 + ROUNDING) / 20, ceil(max(shares) * 20 - ROUNDING) / 20
    low = max(0.0, min(low, high - NARROWEST))
    return low, max(high, low + NARROWEST)


def heat_map(path: Path, panels: Mapping[str, Mapping[tuple[float, ...], float]], grid: Sequence[float] | None) -> None:
    """Plot shares over two temperatures, one panel per mapping: squares for a `grid`, else dots."""
    low, high = span_of([value for points in panels.values() for value in points.values()])
    span = {"vmin": low, "vmax": high, "cmap": "viridis"}
    with figure(path, 4.2 * len(panels), 3.8) as drawn:
        places = drawn.subplots(1, len(panels), squeeze=False)[0]
        for axes, (title, points) in zip(places, panels.items(), strict=True):
            if grid:
                rows = [[points[first, second] for first in grid] for second in grid]
                shown = axes.pcolormesh(grid, grid, rows, shading="nearest", **span)
                ticks = grid[:: ceil(len(grid) / TICKS)]
                axes.set_xticks(ticks)
                axes.set_yticks(ticks)
            else:
                shown = axes.scatter(*zip(*points, strict=True), c=list(points.values()), edgecolors="black", **span)
            axes.set_title(title)
            axes.set_xlabel("temperature of the first")
            axes.set_ylabel("temperature of the second")
        drawn.colorbar(shown, ax=list(places), label="accuracy")
