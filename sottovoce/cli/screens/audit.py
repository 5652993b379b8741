"""The command `runs audit`: runs under other scoring policies, in tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sottovoce.cli.screens.saved_runs import read_runs
from sottovoce.core.errors import UsageError
from sottovoce.core.text import counted, one_line
from sottovoce.report.tables import share_cells, show, table

if TYPE_CHECKING:
    from sottovoce.analysis.audit import Audited

NAMED = 3
"""Number of example questions on each side."""
HEADINGS = "policy | discussions | accuracy | 95 % | points | 95 % | higher | lower | for example"


def show_audit(names: Sequence[str]) -> None:
    """Print each run under all policies that apply to it.

    Raises:
        RecordError: a run does not exist.
        UsageError: a run has no scored discussion.
    """
    from sottovoce.analysis.audit import audit  # late: langgraph

    for name, run in read_runs(names).items():
        if not (found := audit(run)):
            raise UsageError(f"run {name!r} has no scored discussion; expected questions with a target that ended")
        show(
            f"`{one_line(name)}`: {counted(len(run.questions()), 'question')}\n\n{table(HEADINGS, map(_line, found))}\n"
        )


def _line(found: Audited) -> list[str]:
    by = found.difference
    points = ["", ""] if by is None else [f"{100 * by.value:+.1f}", f"{100 * by.low:.1f} to {100 * by.high:.1f}"]
    changed = [str(len(found.better)), str(len(found.worse))]
    return [found.policy, str(found.counted), *share_cells(found.accuracy), *points, *changed, _examples(found)]


def _examples(found: Audited) -> str:
    sides = (("+", found.better), ("-", found.worse))
    return ", ".join(f"{sign}{one_line(each)}" for sign, ids in sides for each in [*dict.fromkeys(ids)][:NAMED])
