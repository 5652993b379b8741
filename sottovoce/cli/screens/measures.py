"""The command `runs measures`: the effect of discussion on answers, in one table per run.

Nothing here imports torch or langgraph before runs are read: the command line reads the options.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sottovoce.cli.screens.saved_runs import read_runs
from sottovoce.core.errors import UsageError
from sottovoce.core.text import counted, figure, one_line
from sottovoce.report.tables import share_cells, show, table

if TYPE_CHECKING:
    from sottovoce.runs.results import Result

By = Literal["round", "agent", "model", "limit"]
ALL: tuple[By | None, ...] = (None, "round", "agent", "model", "limit")
OF_LOOKING = "retrieval | discussions | mean | 95 %"
HEADINGS = "measure | of | happened | n | share | 95 %"


def show_measures(names: Sequence[str], by: By | None, qrels: Path | None = None) -> None:
    """Print the measures of each run, overall and by round, agent, model and limit, or by one of them.

    Measures of retrieval follow if something was retrieved and gold passages are known.

    Raises:
        RecordError: a run does not exist.
        UsageError: a run has no answers to measure, or the libraries for statistics are missing.
    """
    from sottovoce.analysis.discussion_metrics import observed, rates  # late: langgraph

    for name, run in read_runs(names, qrels).items():
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
        if looked_up := _of_retrieval(run.results()):
            show(f"{table(OF_LOOKING, looked_up)}\n")


def _of_retrieval(results: Sequence[Result]) -> list[list[str]]:
    from sottovoce.analysis.measures import measured  # late: libraries for statistics
    from sottovoce.runs.retrieval_measures import OF_RETRIEVAL

    found = measured(results)  # failed discussions too: their retrievals are known
    means = {name: found[name] for name in OF_RETRIEVAL if name in found}
    return [
        [name, str(each.games), figure(each.mean.value), _interval(each.mean.low, each.mean.high)]
        for name, each in means.items()
    ]


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{figure(low)} to {figure(high)}"
