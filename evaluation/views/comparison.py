"""A comparison of runs as Markdown: a table of runs, one of pairs, and what they tell in sentences."""

from __future__ import annotations

from sottovoce.evaluation.compare import Comparison, Summary
from sottovoce.evaluation.pairs import Pair, points
from sottovoce.evaluation.views.printable import one_line
from sottovoce.evaluation.views.tables import p_value, share_cells, table

RUNS = (
    "run | questions | discussions | accuracy | 95 % | abstained | failed | read | reused | written | FLOPs | seconds"
)
PAIRS = "run | against | questions | discussions | points | 95 % | p, McNemar | p, bootstrap | p, Holm"


def markdown(comparison: Comparison) -> str:
    """What the command line prints; tokens, FLOPs and seconds are means of a discussion."""
    blocks = [table(RUNS, map(_run, comparison.runs))]
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


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _name(run: str) -> str:
    """As code; a bar would end the cell."""
    return f"`{one_line(run)}`".replace("|", "\\|")
