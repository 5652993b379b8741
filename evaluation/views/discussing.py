"""The command `measures`: what discussion did to answers, in a table a run.

Nothing here imports torch or langgraph before runs are read: the command line reads the options.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from sottovoce.errors import UsageError
from sottovoce.evaluation.views.printable import counted, one_line
from sottovoce.evaluation.views.runs import read_runs
from sottovoce.evaluation.views.tables import share_cells, show, table

By = Literal["round", "agent", "model", "limit"]
ALL: tuple[By | None, ...] = (None, "round", "agent", "model", "limit")
HEADINGS = "measure | of | happened | n | share | 95 %"


def show_measures(names: Sequence[str], by: By | None) -> None:
    """Print the measures of each run, of all and by rounds, agents, models and limits, or by one of them.

    Raises:
        RecordError: there is no such run.
        UsageError: no answers were stated in a run, or the libraries for statistics are absent.
    """
    from sottovoce.evaluation.discussing import observed, rates  # late: langgraph

    for name, run in read_runs(names).items():
        found = observed(run.records.values())
        if not found:
            raise UsageError(f"run {name!r} has no answers to measure; expected questions with a target that ended")
        told = [rate for wanted in (ALL if by is None else [by]) for rate in rates(found, wanted)]
        asked = len({each.question for each in found})
        cells = (
            [each.measure, one_line(each.of) or "all", str(each.happened), str(each.n), *share_cells(each.share)]
            for each in told
        )
        show(f"`{one_line(name)}`: {counted(asked, 'question')}\n\n{table(HEADINGS, cells)}\n")
