"""Plots of a report as SVG inside the page: reproducible bytes, text as text, and a title for each.

matplotlib's global state does not change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise
from math import ceil
from typing import Any

from markupsafe import Markup, escape

from sottovoce.analysis.compare import Summary
from sottovoce.analysis.discussion_metrics import accuracy_by_round
from sottovoce.analysis.statistics import Share
from sottovoce.core.errors import UsageError
from sottovoce.core.text import shortened
from sottovoce.report.carried import Carried
from sottovoce.runs.cost import BYTES
from sottovoce.runs.run import Run

STYLE: Any = {"svg.fonttype": "none", "svg.hashsalt": "sottovoce", "font.family": "sans-serif", "font.size": 9}
"""Text as text; ids from a fixed salt, not random. Any: matplotlib's type names every key."""
SIZE = (6.2, 3.4)  # inches
LINES = ("-", "--", "-.", ":")
MARKERS = "osD^vP"
APART = 0.05  # distance between the intervals of two runs, in rounds
GAP = 0.03  # minimum distance of two points, as a share of a logarithmic axis
SPAN = 1.5  # minimum factor between the ends of a logarithmic axis, margins excluded
MARGIN = 0.15  # space on either side of the values, as a share of their range
LEGEND, LINE = 80, 8  # characters that fit in a row of a legend, and those that a run's line takes
ROW = 0.2  # inches
NAME = 40  # characters of a run's name in a legend
TICKS = 5  # maximum number on a logarithmic axis


def looks(runs: Iterable[str]) -> dict[str, dict[str, Any]]:  # Any: for `errorbar`
    """Return a color, a line style and a marker for each run, for use in all plots of a page."""
    return {
        run: {"color": f"C{at % 10}", "linestyle": LINES[at % len(LINES)], "marker": MARKERS[at % len(MARKERS)]}
        for at, run in enumerate(runs)
    }


Looks = Mapping[str, Mapping[str, Any]]  # Any: for `errorbar`
Lines = dict[str, list[tuple[float, Share]]]
"""Points of each line: a value, and the accuracy there."""


@dataclass(frozen=True)
class Plot:
    """A plot and the words under it."""

    svg: Markup
    caption: str
    wide: bool = False
    """True for a plot that needs the full width of the page."""


def plots(runs: Mapping[str, Run], summaries: Sequence[Summary]) -> list[Plot]:
    """Return plots of accuracy by round, cost against accuracy, and bytes per message against accuracy, if known."""
    scored = [summary for summary in summaries if summary.failed_wrong]
    of = looks(runs)
    drawn = [_rounds(runs, of), _cost(scored, of), _bytes(scored, of)]
    return [plot for plot in drawn if plot is not None]


def _rounds(runs: Mapping[str, Run], of: Looks) -> Plot | None:
    lines = {name: shares for name, run in runs.items() if (shares := accuracy_by_round([*run.records.values()]))}
    if not lines:
        return None
    figure, [axes] = drawing()
    for at, (name, shares) in enumerate(lines.items()):
        beside = (at - (len(lines) - 1) / 2) * APART  # equal lines would hide each other
        rounds = [each + 1 + beside for each in shares]
        values = [each.value for each in shares.values()]
        axes.errorbar(rounds, values, _reach(shares.values()), capsize=3, label=_label(name), **of[name])
    axes.set_xticks(range(1, 1 + max(len(shares) for shares in lines.values())))
    axes.set_xlabel("round")
    _accuracy(axes)
    _legend(figure, lines)
    caption = "Accuracy by round: the share of agents' answers that are right, with 95 % intervals by question."
    return Plot(svg(figure, caption), caption)


def _cost(scored: Sequence[Summary], of: Looks) -> Plot | None:
    """Plot FLOPs if they are known for all runs, else tokens read and written."""
    flops = [summary.flops for summary in scored]
    tokens = [(summary.tokens_in or 0) + (summary.tokens_out or 0) for summary in scored]
    known = all(value is not None for value in flops)
    quantity = "floating-point operations" if known else "tokens read and written"
    costs = [value or 0.0 for value in flops] if known else tokens
    if not scored or min(costs) <= 0:
        return None
    axis = f"{quantity} per discussion, on a logarithmic axis"
    caption = f"Cost against accuracy: {axis}, failures as wrong, with 95 % intervals."
    return _scattered(scored, costs, quantity, caption, of)


def _bytes(scored: Sequence[Summary], of: Looks) -> Plot | None:
    carrying = [summary for summary in scored if BYTES in summary.measures]
    if len(carrying) < 2:  # one point is no curve
        return None
    caption = "Compression: bytes per message besides words, on a log axis, and accuracy, failures as wrong."
    return _scattered(carrying, [summary.measures[BYTES].value for summary in carrying], BYTES, caption, of)


def _scattered(scored: Sequence[Summary], at: Sequence[float], quantity: str, caption: str, of: Looks) -> Plot:
    figure, [axes] = drawing()
    low, high = _ends(at)
    places = apart(at, (high / low) ** GAP)
    for summary, x in zip(scored, places, strict=True):
        share = summary.failed_wrong
        assert share is not None, "only scored runs are drawn"
        axes.errorbar([x], [share.value], _reach([share]), capsize=3, label=_label(summary.run), **of[summary.run])
    _logarithmic(axes, at)
    axes.set_xlim(low, max(high, max(places) * (high / low) ** MARGIN))
    axes.set_xlabel(quantity)
    _accuracy(axes)
    _legend(figure, (summary.run for summary in scored))
    return Plot(svg(figure, caption), caption)


def plots_of_points(noun: str, numbers: Mapping[str, int], rows: Sequence[Carried]) -> list[Plot]:
    """Return plots of accuracy by the points' numbers and by bytes; [] if points have none, or nothing is scored.

    Rows with a single point are in the second plot only, named by their protocol; rows with a probe are left out.
    """
    times = Counter(row.row for row in rows)
    by_number: Lines = {}
    by_bytes: Lines = {}
    for row in rows:
        if row.point not in numbers or row.right is None or row.probed:
            continue
        if several := times[row.row] > 1:
            by_number.setdefault(row.row, []).append((numbers[row.point], row.right))
        if row.message_bytes:
            name = row.row if several else f"{row.protocol} at {row.point}"
            by_bytes.setdefault(name, []).append((row.message_bytes, row.right))
    of = looks(dict.fromkeys([*by_number, *by_bytes]))
    of |= {name: {**of[name], "linestyle": "none"} for name in by_bytes if name not in by_number}
    number, size = f"number of {noun}", f"{BYTES}, on a logarithmic axis"
    captions = (
        f"Right by {noun}: accuracy by {number}, failures as wrong, with 95 % intervals.",
        f"Right by bytes: accuracy by {size}, failures as wrong, with 95 % intervals; lines join the points of a row.",
    )
    drawn = [
        _curves(by_number, number, captions[0], of, sorted(numbers.values())),
        _curves(by_bytes, size, captions[1], of),
    ]
    return [plot for plot in drawn if plot is not None]


def _curves(lines: Lines, quantity: str, caption: str, of: Looks, ticks: Sequence[int] = ()) -> Plot | None:
    """Plot a line for each name; at `ticks`, where names have equal values, intervals are drawn side by side."""
    if not lines:
        return None
    figure, [axes] = drawing()
    values = [value for points in lines.values() for value, _ in points]
    low, high = _ends(values)
    for at, (name, points) in enumerate(lines.items()):
        beside = (high / low) ** (GAP / 6 * (at - (len(lines) - 1) / 2)) if ticks else 1
        shares = [share for _, share in points]
        places = [value * beside for value, _ in points]
        axes.errorbar(
            places, [each.value for each in shares], _reach(shares), capsize=2, label=_label(name), **of[name]
        )
    _logarithmic(axes, values)
    if ticks:
        axes.set_xticks(ticks, map(str, ticks))
    axes.set_xlabel(quantity)
    _accuracy(axes)
    _legend(figure, lines)
    return Plot(svg(figure, caption), caption, wide=True)


def apart(values: Sequence[float], factor: float) -> list[float]:
    """Return the values in their order, each raised to at least `factor` times the next smaller one."""
    raised = list(values)
    for before, at in pairwise(sorted(range(len(values)), key=lambda place: values[place])):
        raised[at] = max(raised[at], raised[before] * factor)
    return raised


def _ends(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of a logarithmic axis that has the values in its middle."""
    low, high = min(values), max(values)
    wider = max(1.0, SPAN * low / high) ** 0.5
    low, high = low / wider, high * wider
    margin = (high / low) ** MARGIN
    return low / margin, high * margin


def _logarithmic(axes: Any, at: Sequence[float]) -> None:  # Any: Axes
    from matplotlib.ticker import NullLocator

    low, high = _ends(at)
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    ticks: list[float] = []
    for value in sorted(at):
        if not ticks or value >= ticks[-1] * (high / low) ** (1 / TICKS):
            ticks.append(value)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(ticks, [f"{value:,.0f}" if value < 1e6 else f"{value:.2e}" for value in ticks])


def drawing(size: tuple[float, float] = SIZE, panels: int = 1) -> tuple[Any, list[Any]]:  # Any: a Figure, its Axes
    """Return an empty figure and its panels, one below the other."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError("plots need the extra 'eval', which is not installed: pip install matplotlib") from error
    figure = Figure(figsize=size, layout="constrained")
    return figure, list(figure.subplots(panels, 1, squeeze=False)[:, 0])


def svg(figure: Any, title: str) -> Markup:  # Any: a Figure
    """Return the SVG element alone, for use in a page, with a title for screen readers."""
    import matplotlib

    text = StringIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(text, format="svg", metadata={"Date": None})
    element = text.getvalue()
    opening, _, rest = element[element.index("<svg") :].partition(">")
    return Markup(f'{opening} role="img"><title>{escape(title)}</title>{rest}')


def _legend(figure: Any, names: Iterable[str]) -> None:  # Any: a Figure
    labels = [*map(_label, names)]
    columns = max(1, LEGEND // (max(map(len, labels)) + LINE))
    figure.set_figheight(SIZE[1] + ROW * ceil(len(labels) / columns))
    figure.legend(loc="outside upper left", ncols=columns, frameon=False)


def _label(name: str) -> str:
    """Return a short form of a run's name for a legend; an unescaped "$" would begin a formula."""
    return shortened(name, NAME).replace("$", r"\$")


def _accuracy(axes: Any) -> None:  # Any: Axes
    axes.set_ylim(-0.03, 1.03)
    axes.set_ylabel("accuracy")
    axes.grid(alpha=0.3)


def _reach(shares: Iterable[Any]) -> tuple[list[float], list[float]]:  # Any: of a Share
    """Return how far intervals go down and up, at least 0: rounding may put a bound on the wrong side."""
    listed = [*shares]
    return [max(0.0, each.value - each.low) for each in listed], [max(0.0, each.high - each.value) for each in listed]
