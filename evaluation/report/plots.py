"""Plots of a report as SVG inside the page: the same bytes for the same figures, text as text, a title for each.

matplotlib's global state stays as it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

from markupsafe import Markup, escape

from sottovoce.errors import UsageError
from sottovoce.evaluation.compare import Summary
from sottovoce.evaluation.report.rounds import by_round
from sottovoce.evaluation.runs.record import BYTES
from sottovoce.evaluation.runs.run import Run

STYLE: Any = {"svg.fonttype": "none", "svg.hashsalt": "sottovoce", "font.family": "sans-serif", "font.size": 9}
"""Text as text; ids from a salt, not from chance. Any: matplotlib has a type of a name for each key."""
SIZE = (6.2, 3.4)  # inches
LINES = ("-", "--", "-.", ":")
MARKERS = "osD^vP"
APART = 0.05  # rounds between the intervals of two runs
ASIDE = 0.015  # share of a logarithmic axis between the points of two runs that are equal
LEAST = 1.2  # a logarithmic axis spans this factor at least
TICKS = 5  # of a logarithmic axis, at most


def looks(runs: Iterable[str]) -> dict[str, dict[str, Any]]:  # Any: for `errorbar`
    """Return a colour, a line and a marker for each run, the same in all plots of a page."""
    return {
        run: {"color": f"C{at % 10}", "linestyle": LINES[at % len(LINES)], "marker": MARKERS[at % len(MARKERS)]}
        for at, run in enumerate(runs)
    }


Looks = Mapping[str, Mapping[str, Any]]  # Any: for `errorbar`


@dataclass(frozen=True)
class Plot:
    """A plot and the words under it."""

    svg: Markup
    caption: str


def plots(runs: Mapping[str, Run], summaries: Sequence[Summary]) -> list[Plot]:
    """Accuracy by round, cost against accuracy, and bytes a message against accuracy, where there are figures.

    Raises:
        UsageError: the extra `eval` is not installed.
    """
    scored = [each for each in summaries if each.failed_wrong]
    of = looks(runs)
    found = [_rounds(runs, of), _cost(scored, of), _bytes(scored, of)]
    return [plot for plot in found if plot is not None]


def _rounds(runs: Mapping[str, Run], of: Looks) -> Plot | None:
    lines = {name: shares for name, run in runs.items() if (shares := by_round([*run.records.values()]))}
    if not lines:
        return None
    figure, [axes] = drawing()
    for at, (name, shares) in enumerate(lines.items()):
        beside = (at - (len(lines) - 1) / 2) * APART  # equal lines would hide one another
        rounds = [each + 1 + beside for each in shares]
        values = [each.value for each in shares.values()]
        axes.errorbar(rounds, values, _reach(shares.values()), capsize=3, label=_plain(name), **of[name])
    axes.set_xticks(range(1, 1 + max(len(shares) for shares in lines.values())))
    axes.set_xlabel("round")
    _accuracy(axes)
    axes.legend()
    caption = "Accuracy by round: the share of agents' answers that are right, with 95 % intervals by question."
    return Plot(svg(figure, caption), caption)


def _cost(scored: Sequence[Summary], of: Looks) -> Plot | None:
    """FLOPs where they are known of all runs, else tokens read and written."""
    flops = [each.flops for each in scored]
    tokens = [(each.tokens_in or 0) + (each.tokens_out or 0) for each in scored]
    known = all(value is not None for value in flops)
    what = "floating-point operations" if known else "tokens read and written"
    costs = [value or 0.0 for value in flops] if known else tokens
    if not scored or min(costs) <= 0:
        return None
    caption = (
        f"Cost against accuracy: {what} of a discussion, on a logarithmic axis, failures as wrong, with 95 % intervals."
    )
    return _scattered(scored, costs, what, caption, of)


def _bytes(scored: Sequence[Summary], of: Looks) -> Plot | None:
    carrying = [each for each in scored if BYTES in each.measures]
    if len(carrying) < 2:  # one point is no curve
        return None
    caption = "Compression: bytes a message carries besides words, on a log axis, and accuracy, failures as wrong."
    return _scattered(carrying, [each.measures[BYTES].mean.value for each in carrying], BYTES, caption, of)


def _scattered(scored: Sequence[Summary], at: Sequence[float], what: str, caption: str, of: Looks) -> Plot:
    figure, [axes] = drawing()
    for place, (each, x) in enumerate(zip(scored, at, strict=True)):
        share = each.failed_wrong
        assert share is not None, "only scored runs are drawn"
        x *= _span(at) ** (ASIDE * (place - (len(at) - 1) / 2))  # equal points would hide one another
        axes.errorbar([x], [share.value], _reach([share]), capsize=3, label=_plain(each.run), **of[each.run])
    _logarithmic(axes, at)
    axes.set_xlabel(what)
    _accuracy(axes)
    axes.legend()
    return Plot(svg(figure, caption), caption)


def _span(at: Sequence[float]) -> float:
    """Return the factor that a logarithmic axis over these values spans."""
    return max(max(at) / min(at), LEAST)


def _logarithmic(axes: Any, at: Sequence[float]) -> None:  # Any: Axes
    """Set a logarithmic axis with ticks at values that are drawn, as many as do not overlap."""
    from matplotlib.ticker import NullLocator

    low, span = min(at), _span(at)
    axes.set_xscale("log")
    axes.set_xlim(low / span**0.15, low * span**1.15)
    ticks: list[float] = []
    for value in sorted(at):
        if not ticks or value >= ticks[-1] * span ** (1 / TICKS):
            ticks.append(value)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(ticks, [f"{value:,.0f}" if value < 1e6 else f"{value:.2e}" for value in ticks])


def drawing(size: tuple[float, float] = SIZE, panels: int = 1) -> tuple[Any, list[Any]]:  # Any: a Figure, its Axes
    """Return an empty figure with so many panels, one below the other.

    Raises:
        UsageError: the extra `eval` is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError("plots need the extra 'eval', which is not installed: pip install matplotlib") from error
    figure = Figure(figsize=size, layout="constrained")
    return figure, list(figure.subplots(panels, 1, squeeze=False)[:, 0])


def svg(figure: Any, title: str) -> Markup:  # Any: a Figure
    """The element alone, to stand in a page, with a title for those who do not see it."""
    import matplotlib

    text = StringIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(text, format="svg", metadata={"Date": None})
    found = text.getvalue()
    found = found[found.index("<svg") :]
    return Markup(re.sub(r"(<svg[^>]*)>", rf'\1 role="img"><title>{_replacement(title)}</title>', found, count=1))


def _replacement(title: str) -> str:
    return str(escape(title)).replace("\\", r"\\")


def _plain(name: str) -> str:
    """A "$" would begin a formula."""
    return name.replace("$", r"\$")


def _accuracy(axes: Any) -> None:  # Any: Axes
    axes.set_ylim(-0.03, 1.03)
    axes.set_ylabel("accuracy")
    axes.grid(alpha=0.3)


def _reach(shares: Iterable[Any]) -> tuple[list[float], list[float]]:  # Any: of a Share
    """How far intervals go down and up; a rounding may put a bound on the wrong side."""
    found = [*shares]
    return [max(0.0, each.value - each.low) for each in found], [max(0.0, each.high - each.value) for each in found]
