"""Plots of a report as SVG inside the page: reproducible bytes, text as text, and a title for each.

matplotlib's global state does not change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from math import ceil
from typing import Any

from markupsafe import Markup, escape

from sottovoce.analysis.compare import Summary
from sottovoce.analysis.discussion_metrics import accuracy_by_round
from sottovoce.core.any_types import JSONValue, Unimported, Untyped
from sottovoce.core.errors import UsageError
from sottovoce.core.text import shortened
from sottovoce.runs.run import Run

STYLE: Any = {"svg.fonttype": "none", "svg.hashsalt": "sottovoce", "font.family": "sans-serif", "font.size": 9}
"""Text as text; ids from a fixed salt, not random. Any: matplotlib's type names every key."""
SIZE = (6.2, 3.4)  # inches
MARKERS = "osD^vP"
APART = 0.05  # distance between the intervals of two runs, in rounds
COLUMNS = 2  # of a legend
ROW = 0.2  # inches
NAME = 40  # characters of a run's name in a legend


def looks(runs: Iterable[str]) -> dict[str, dict[str, Untyped]]:
    """Return a color and a marker for each run, for use in all plots of a page."""
    return {run: {"color": f"C{at % 10}", "marker": MARKERS[at % len(MARKERS)]} for at, run in enumerate(runs)}


Looks = Mapping[str, Mapping[str, Untyped]]


@dataclass(frozen=True)
class Plot:
    """A plot and the words under it."""

    svg: Markup
    caption: str


def plots(runs: Mapping[str, Run], summaries: Sequence[Summary]) -> list[Plot]:
    """Return plots of accuracy by round, and of cost against accuracy, if known."""
    scored = [summary for summary in summaries if summary.failed_wrong]
    of = looks(runs)
    drawn = [_rounds(runs, of), _cost(scored, of)]
    return [plot for plot in drawn if plot is not None]


def _rounds(runs: Mapping[str, Run], of: Looks) -> Plot | None:
    lines = {name: shares for name, run in runs.items() if (shares := accuracy_by_round([*run.records.values()]))}
    if not lines:
        return None
    figure, axes = drawing()
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
    figure, axes = drawing()
    for summary, cost in zip(scored, costs, strict=True):
        share = summary.failed_wrong
        assert share is not None, "only scored runs are drawn"
        axes.errorbar([cost], [share.value], _reach([share]), capsize=3, label=_label(summary.run), **of[summary.run])
    axes.set_xscale("log")
    axes.set_xlabel(quantity)
    _accuracy(axes)
    _legend(figure, [summary.run for summary in scored])
    axis = f"{quantity} per discussion, on a logarithmic axis"
    caption = f"Cost against accuracy: {axis}, failures as wrong, with 95 % intervals."
    return Plot(svg(figure, caption), caption)


def drawing() -> tuple[Unimported, Unimported]:
    """Return an empty figure and its panel."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError("plots need the extra 'eval', which is not installed: pip install matplotlib") from error
    figure = Figure(figsize=SIZE, layout="constrained")
    return figure, figure.subplots()


def svg(figure: Unimported, title: str) -> Markup:
    """Return the SVG element alone, for use in a page, with a title for screen readers."""
    import matplotlib

    text = StringIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(text, format="svg", metadata={"Date": None})
    element = text.getvalue()
    opening, _, rest = element[element.index("<svg") :].partition(">")
    return Markup(f'{opening} role="img"><title>{escape(title)}</title>{rest}')


def _legend(figure: Unimported, names: Collection[str]) -> None:
    figure.set_figheight(SIZE[1] + ROW * ceil(len(names) / COLUMNS))
    figure.legend(loc="outside upper left", ncols=COLUMNS, frameon=False)


def _label(name: str) -> str:
    """Return a short form of a run's name for a legend; an unescaped "$" would begin a formula."""
    return shortened(name, NAME).replace("$", r"\$")


def _accuracy(axes: Untyped) -> None:
    axes.set_ylim(-0.03, 1.03)
    axes.set_ylabel("accuracy")
    axes.grid(alpha=0.3)


def _reach(shares: Iterable[JSONValue]) -> tuple[list[float], list[float]]:
    """Return how far intervals go down and up, at least 0: rounding may put a bound on the wrong side."""
    listed = [*shares]
    return [max(0.0, each.value - each.low) for each in listed], [max(0.0, each.high - each.value) for each in listed]
