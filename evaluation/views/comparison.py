"""A comparison of runs as Markdown: tables of runs, of what worlds measure, of pairs, and what they tell in words."""

from __future__ import annotations

from collections.abc import Mapping

from sottovoce.evaluation.compare import Comparison, Summary, compare
from sottovoce.evaluation.experiments.folder import ended
from sottovoce.evaluation.experiments.matching import told
from sottovoce.evaluation.measures import Measured
from sottovoce.evaluation.pairs import Pair, points
from sottovoce.evaluation.runs.run import Run
from sottovoce.evaluation.views.printable import counted, figure, one_line
from sottovoce.evaluation.views.tables import p_value, share_cells, table

RUNS = (
    "run | questions | discussions | accuracy | 95 % | abstained | failed | read | reused | written | FLOPs | seconds"
)
PAIRS = "run | against | questions | discussions | points | 95 % | p, McNemar | p, bootstrap | p, Holm"


def compared(runs: Mapping[str, Run], against: str | None = None) -> str:
    """The comparison of runs in which anything ended, with what is to be told of matched ones.

    Raises:
        UsageError: see `compare`.
    """
    return markdown(compare(ended(runs), against, told(runs)))


def markdown(comparison: Comparison) -> str:
    """What the command line prints; tokens, FLOPs and seconds are means of a discussion."""
    blocks = [table(RUNS, map(_run, comparison.runs))]
    if names := list(dict.fromkeys(name for run in comparison.runs for name in run.measures)):
        headings = " | ".join(["run", *map(_cell, names)])
        blocks.append(table(headings, ([_name(run.run), *_measures(run, names)] for run in comparison.runs)))
    if comparison.pairs:
        blocks.append(table(PAIRS, map(_pair, comparison.pairs)))
    sentences = [*(pair.verdict for pair in comparison.pairs), *comparison.notes]
    if sentences:
        blocks.append("\n".join(f"- {one_line(sentence)}" for sentence in sentences))
    return "\n\n".join(blocks) + "\n"


def _run(run: Summary) -> list[str]:
    counts = [str(run.questions), str(run.discussions), *share_cells(run.accuracy), str(run.abstained), str(run.failed)]
    tokens = [_number(each, ",.0f") for each in (run.tokens_in, run.tokens_reused, run.tokens_out)]
    return [_name(run.run), *counts, *tokens, _number(run.flops, ".2e"), _number(run.seconds, ".2f")]


def _pair(pair: Pair) -> list[str]:
    found = pair.difference
    by = [f"{100 * found.value:+.1f}", f"{points(found.low)} to {points(found.high)}"]
    tests = [p_value(p) for p in (pair.mcnemar, found.p, pair.corrected)]
    return [_name(pair.run), _name(pair.against), str(pair.questions), str(pair.discussions), *by, *tests]


def _measures(run: Summary, names: list[str]) -> list[str]:
    """A mean with its interval, and of how many games where it does not apply to all that ended."""
    return [_measured(run.measures[name], run) if name in run.measures else "" for name in names]


def _measured(found: Measured, run: Summary) -> str:
    mean, ended = found.mean, run.discussions - run.failed
    interval = [] if mean.low is None or mean.high is None else [f"{figure(mean.low)} to {figure(mean.high)}"]
    games = [f"of {counted(found.games, 'game')}"] if found.games < ended else []
    beside = "; ".join([*interval, *games])
    return f"{figure(mean.value)} ({beside})" if beside else figure(mean.value)


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _name(run: str) -> str:
    """As code."""
    return _cell(f"`{run}`")


def _cell(text: str) -> str:
    """A bar would end the cell."""
    return one_line(text).replace("|", "\\|")
