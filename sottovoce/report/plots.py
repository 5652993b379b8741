"""Plots of runs: as SVG inside a report, and as PNG and SVG files; reproducible bytes, text as text, and a title each.

Runs differ in marker and line too, not in color alone; few of them are named beside their points, many in a legend.
matplotlib's global state does not change.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import BytesIO
from math import ceil, floor, log10
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from sottovoce.analysis.compare import Summary
from sottovoce.analysis.discussion_metrics import accuracy_by_round
from sottovoce.analysis.statistics import Share, imported
from sottovoce.core.any_types import JSONValue, Unimported, Untyped
from sottovoce.core.text import shortened
from sottovoce.nodes.hearing import heard_edges
from sottovoce.runs.cost import hearings
from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.run import Run

STYLE: Any = {"svg.fonttype": "none", "svg.hashsalt": "sottovoce", "font.family": "sans-serif", "font.size": 9}
"""Text as text; ids from a fixed salt, not random. Any: matplotlib's type names every key."""
SIZE = (6.2, 3.4)  # inches
MARKERS, LINES = "osD^vPX", ("-", "--", "-.", ":")
ENDINGS = (".png", ".svg")
DOTS = 200  # per inch of a PNG
APART = 0.05  # distance between the intervals of two runs, in rounds
FEW = 6  # runs that are named beside their points
LINE = 0.07  # distance between two names below one another, in accuracy
LETTER = 0.013  # width of a letter of a name, in widths of a plot
LIMITS = (-0.05, 1.05)  # of accuracy: markers at 0 and 1 are whole
COLUMNS = 2  # of a legend
ROW = 0.2  # inches
NAME = 40  # characters of a run's name in a legend


def looks(runs: Iterable[str]) -> dict[str, dict[str, Untyped]]:
    """Return a color, a marker and a line for each run, for use in all plots of a page."""
    found = {}
    for at, run in enumerate(runs):
        marks = {"marker": MARKERS[at % len(MARKERS)], "linestyle": LINES[at % len(LINES)]}
        found[run] = {"color": f"C{at % 10}", **marks, "fillstyle": "none"}  # not filled: equal runs both show
    return found


Drawing = tuple[Unimported, str]
"""A figure, and the words under it."""


class Plot(NamedTuple):
    """A plot and the words under it."""

    svg: Markup
    caption: str


def plots(runs: Mapping[str, Run], summaries: Sequence[Summary]) -> list[Plot]:
    """Return plots of accuracy by round, and by cost in FLOPs (in tokens if some FLOPs are unknown)."""
    flops = {summary.run: summary.flops or 0 for summary in summaries}
    counted = all(flops[run] for run in _scored(summaries))
    cost = _against("floating-point operations", flops, summaries, runs) if counted else _tokens(runs, summaries)
    drawings = [_rounds(runs, summaries), cost]
    return [Plot(svg(*each), each[1]) for each in drawings if each is not None]


def drawn(runs: Mapping[str, Run], summaries: Sequence[Summary]) -> dict[str, bytes]:
    """Return the plots of `DRAWN` with known numbers, as files by name."""
    drawings = {name: draw(runs, summaries) for name, draw in DRAWN.items()}
    return {
        f"{name}{ending}": _saved(each[0], ending)
        for name, each in drawings.items()
        if each is not None
        for ending in ENDINGS
    }


def _scored(summaries: Sequence[Summary]) -> dict[str, Share]:
    return {summary.run: summary.failed_wrong for summary in summaries if summary.failed_wrong}


def _right(runs: Mapping[str, Run], summaries: Sequence[Summary]) -> Drawing | None:
    """Plot the runs below one another, in their order."""
    if not (scored := _scored(summaries)):
        return None
    figure, axes = drawing()
    figure.set_figheight(1 + ROW * 1.5 * len(scored))
    for at, (run, share) in enumerate(scored.items()):
        axes.errorbar([share.value], [at], xerr=_reach([share]), capsize=3, **looks(runs)[run])
    axes.set_yticks(range(len(scored)), map(_label, scored))
    axes.set_ylim(len(scored) - 0.5, -0.5)  # each in the middle of its row, the first on top
    axes.set_xlim(LIMITS)
    axes.set_xlabel("accuracy")
    axes.grid(axis="x", alpha=0.3)
    return figure, "Accuracy, failures as wrong, with 95 % intervals by question."


def _rounds(runs: Mapping[str, Run], summaries: Sequence[Summary]) -> Drawing | None:
    lines = {name: shares for name, run in runs.items() if (shares := accuracy_by_round([*run.records.values()]))}
    if not lines:
        return None
    figure, axes = drawing()
    ends = {}
    for at, (name, shares) in enumerate(lines.items()):
        beside = (at - (len(lines) - 1) / 2) * APART  # equal lines would hide each other
        rounds = [each + 1 + beside for each in shares]
        values = [each.value for each in shares.values()]
        axes.errorbar(rounds, values, _reach(shares.values()), capsize=3, label=_label(name), **looks(runs)[name])
        ends[name] = len(rounds) + (len(lines) - 1) / 2 * APART, values[-1]  # right of all lines
    most = max(len(shares) for shares in lines.values())
    axes.set_xticks(range(1, 1 + most))
    axes.set_xlim(0.5, most + 0.5)
    axes.set_xlabel("round")
    _by_accuracy(figure, axes, ends, looks(runs))
    return figure, "Accuracy by round: the share of agents' answers that are right, with 95 % intervals by question."


def _tokens(runs: Mapping[str, Run], summaries: Sequence[Summary]) -> Drawing | None:
    known = [(each.run, each.tokens_in, each.tokens_out) for each in summaries]
    tokens = {run: read + written for run, read, written in known if read is not None and written is not None}
    return _against("tokens read and written", tokens, summaries, runs)


def _bytes(runs: Mapping[str, Run], summaries: Sequence[Summary]) -> Drawing | None:
    done = {name: [record for record in run.records.values() if record.decision] for name, run in runs.items()}
    sizes = {name: list(map(_bytes_heard, records)) for name, records in done.items()}
    known = {name: sum(filter(None, each)) / max(1, len(each)) for name, each in sizes.items() if None not in each}
    return _against("bytes of messages that others heard", known, summaries, runs)


def _bytes_heard(record: DiscussionRecord) -> float | None:
    """Return the bytes that agents heard, or None if they hear one another but no hearing is recorded."""
    size, hears = hearings(record.prompts), heard_edges(record.chosen())
    return size.nbytes if size.times or not hears else None


def _against(
    quantity: str, costs: Mapping[str, float], summaries: Sequence[Summary], runs: Mapping[str, Run]
) -> Drawing | None:
    """Plot accuracy against a cost per discussion. Return None unless a known cost is above 0."""
    scored, of = {run: share for run, share in _scored(summaries).items() if run in costs}, looks(runs)
    if not (above := [costs[run] for run in scored if costs[run] > 0]):
        return None
    figure, axes = drawing()
    for run, share in scored.items():
        look = {**of[run], "zorder": 4}  # above the boxes of names
        axes.errorbar([costs[run]], [share.value], _reach([share]), capsize=3, label=_label(run), **look)
    _cost_axis(axes, above, zero=len(above) < len(scored))
    axes.set_xlabel(f"{quantity}, per discussion (logarithmic)")
    _by_accuracy(figure, axes, {run: (costs[run], share.value) for run, share in scored.items()}, of)
    axis = f"{quantity} per discussion, on a logarithmic axis"
    return figure, f"Cost against accuracy: {axis}, failures as wrong, with 95 % intervals."


def _cost_axis(axes: Untyped, above: Sequence[float], *, zero: bool) -> None:
    """Make the axis logarithmic, with room around its points and three ticks or more."""
    from matplotlib.ticker import EngFormatter, MaxNLocator

    room = max((max(above) / min(above)) ** 0.1, 1.25)
    low, high = min(above) / room, max(above) * room
    powers = [10.0**power for power in range(floor(log10(low)), ceil(log10(high)))]
    by_digits = ([n * power for power in powers for n in digits] for digits in ((1,), (1, 2, 5)))
    even = MaxNLocator(5, min_n_ticks=3).tick_values(low, high)  # for costs of one order of magnitude
    listed = ([tick for tick in ticks if low <= tick <= high] for ticks in (*by_digits, even))
    if zero:  # a single agent hears 0 bytes
        axes.set_xscale("symlog", linthresh=min(above))
    else:
        axes.set_xscale("log")
    axes.set_xlim(-min(above) / 4 if zero else low, high)
    axes.set_xticks([0] * zero + next(ticks for ticks in listed if len(ticks) > 2))
    axes.minorticks_off()
    axes.xaxis.set_major_formatter(EngFormatter())


DRAWN: dict[str, Callable[[Mapping[str, Run], Sequence[Summary]], Drawing | None]] = {
    "right": _right,
    "right_by_tokens": _tokens,
    "right_by_bytes": _bytes,
    "votes_by_round": _rounds,
}
"""The plots that are files, by name."""


def drawing() -> tuple[Unimported, Unimported]:
    """Return an empty figure and its panel."""
    figure = imported("matplotlib.figure", "plots").Figure(figsize=SIZE, layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)  # names may stand there
    return figure, axes


def svg(figure: Unimported, title: str) -> Markup:
    """Return the SVG element alone, for use in a page, with a title for screen readers."""
    element = _saved(figure, ".svg").decode()
    opening, _, rest = element[element.index("<svg") :].partition(">")
    return Markup(f'{opening} role="img"><title>{escape(title)}</title>{rest}')


def _saved(figure: Unimported, suffix: str) -> bytes:
    import matplotlib

    content, metadata = BytesIO(), {"Date": None} if suffix == ".svg" else {"Software": None}
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # a font lacks it: it is a box in a PNG, and a letter in an SVG
        figure.savefig(content, format=suffix.removeprefix("."), dpi=DOTS, metadata=metadata)
    return content.getvalue()


def _by_accuracy(
    figure: Unimported,
    axes: Untyped,
    points: Mapping[str, tuple[float, float]],
    of: Mapping[str, Mapping[str, Untyped]],
) -> None:
    """Draw the axis of accuracy, and name the runs: beside their points, or many of them in a legend."""
    axes.set_ylim(LIMITS)
    axes.set_ylabel("accuracy")
    axes.grid(alpha=0.3)
    if len(points) > FEW:
        figure.set_figheight(SIZE[1] + ROW * ceil(len(points) / COLUMNS))
        figure.legend(loc="outside upper left", ncols=COLUMNS, frameon=False)
        return
    placed, inner = list[tuple[float, float, float]](), axes.transData + axes.transAxes.inverted()
    for run, (x, y) in sorted(points.items(), key=lambda point: -point[1][1]):
        name, height, begin = _label(run), y, inner.transform((x, y))[0]
        end, down = begin + LETTER * (2 + len(name)), LINE if y > 0.5 else -LINE
        while any(begin < right and left < end and abs(height - at) < LINE - 1e-9 for left, right, at in placed):
            height -= down
        placed.append((begin, end, height))
        beside = {"xytext": (7, 0), "textcoords": "offset points", "va": "center", "color": of[run]["color"]}
        axes.annotate(name, (x, height), bbox={"color": "white", "alpha": 0.7, "pad": 0.5}, **beside)


def _label(name: str) -> str:
    """Return a short form of a run's name; "$" would begin a formula, and legends leave out names that begin with _."""
    return f"{' ' * name.startswith('_')}{shortened(name, NAME)}".replace("$", r"\$")


def _reach(shares: Iterable[JSONValue]) -> tuple[list[float], list[float]]:
    """Return how far intervals go down and up, at least 0: rounding may put a bound on the wrong side."""
    listed = [*shares]
    return [max(0.0, each.value - each.low) for each in listed], [max(0.0, each.high - each.value) for each in listed]
