"""Self-consistency at the cost of another row: how many samples that makes, measured by a pilot.

The pilot draws a few samples of the row's first questions. It tells a question's first sample from further
ones, because these reuse what the first has read of the prompt: k times the cost of a single sample would be
more than k samples take. It is a row of its own, kept as `ROW/pilot`, and is asked nothing again when the
experiment goes on, so that the number stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from statistics import fmean

from sottovoce.channels.message import Message
from sottovoce.errors import UsageError
from sottovoce.evaluation.experiments.rows import Prepared
from sottovoce.evaluation.runs.budget import Budget, Currency
from sottovoce.evaluation.runs.record import Record, computed
from sottovoce.evaluation.runs.run import Run
from sottovoce.evaluation.views.printable import counted

QUESTIONS, SAMPLES = 8, 4
"""Of the pilot."""


def pilot_of(row: Prepared) -> Prepared:
    """The row that measures what samples of another one cost; its name is a folder within that one's."""
    few = row.settings.model_copy(update={"samples": SAMPLES})
    return replace(
        row,
        name=pilot_name(row.name),
        settings=few,
        questions=row.questions[:QUESTIONS],
        seeds=row.seeds[:1],
        matched=None,
    )


def pilot_name(row: str) -> str:
    """Of a row's pilot."""
    return f"{row}/pilot"


def is_known(row: Prepared, runs: Mapping[str, Run]) -> bool:
    """Whether all that a row's number of samples follows from was held; True where it follows from nothing."""
    needed = [] if row.matched is None else [row.matched.row, pilot_name(row.name)]
    return all(name in runs and is_over(runs[name]) for name in needed)


def check_order(rows: Mapping[str, Prepared], chosen: Sequence[str], runs: Mapping[str, Run]) -> None:
    """Refuse to hold a row before the one that it is matched to.

    Raises:
        UsageError: names both.
    """
    for name in chosen:
        if (matched := rows[name].matched) and matched.row not in chosen:
            if matched.row not in runs or not is_over(runs[matched.row]):
                raise UsageError(f"row {name!r} is matched to {matched.row!r}, which is not over; hold that first")


def is_over(run: Run) -> bool:
    """Whether each discussion ended, some of them in a failure."""
    return all(record.status in ("done", "failed") for record in run.records.values())


def fitted(row: Prepared, runs: Mapping[str, Run]) -> tuple[Prepared, Budget | None]:
    """The row with as many samples as it is to draw, and the budget that they follow from.

    Raises:
        UsageError: what the row took that it is matched to is not known.
    """
    if row.matched is None:
        return row, None
    assert is_known(row, runs), "rows are held in order, and not after one that was stopped"
    found = budget(row.matched.row, row.matched.by, runs[row.matched.row], runs[pilot_name(row.name)])
    return replace(row, settings=row.settings.model_copy(update={"samples": found.samples})), found


def budget(name: str, by: Currency, run: Run, pilot: Run) -> Budget:
    """What a discussion of a run took, and what samples of its questions take.

    Raises:
        UsageError: nothing ended, or a hosted model's FLOPs were asked for.
    """
    drawn = [_samples(record, by) for record in _done(pilot)]
    return Budget(
        row=name,
        by=by,
        target=fmean(_costs(name, run, by)),
        first=fmean(first for first, *_ in drawn),
        further=fmean(cost for _, *further in drawn for cost in further),
        questions=len(drawn),
    )


def told(runs: Mapping[str, Run]) -> Iterator[str]:
    """A sentence for each run whose samples follow from a budget: the budget, and what was reached."""
    for name, run in runs.items():
        if (aim := run.head.budget) is not None and any(record.decision for record in run.records.values()):
            costs = _costs(name, run, aim.by)
            samples = counted(run.head.settings["samples"], "sample")
            yield (
                f"`{name}`: {samples} a question, to cost what a discussion of `{aim.row}` does ({aim.told(aim.target)}"
                f" in the mean); they took {aim.told(fmean(costs))} (n = {len(costs)}), {fmean(costs) / aim.target:.0%}"
                f" of that. In a pilot of {counted(aim.questions, 'question')} the first sample of each took"
                f" {aim.told(aim.first)}, and each further one {aim.told(aim.further)}."
            )


def _done(run: Run) -> list[Record]:
    if found := [record for record in run.records.values() if record.status == "done"]:
        return found
    raise UsageError(f"no discussion of {str(run.folder)!r} ended, so that its cost is not known; remove it, or go on")


def _costs(name: str, run: Run, by: Currency) -> list[float]:
    return [_cost(record, record.messages, by) for record in _done(run)]


def _cost(record: Record, messages: Sequence[Message], by: Currency) -> float:
    """What some messages of a discussion took."""
    if by == "tokens":
        return sum(computed(each) for each in messages if each.source in ("model", "hosted"))
    found = [record.flops_of(each) for each in messages]
    known = [each for each in found if each is not None]
    if len(known) < len(found):
        raise UsageError("the FLOPs of hosted models are not known; match by tokens")
    return sum(known, 0.0)


def _samples(record: Record, by: Currency) -> list[float]:
    """What each sample of a discussion took, answer turns included; the one that read most of the prompt first."""
    by_agent = groupby(sorted(record.messages, key=lambda each: each.agent), lambda each: each.agent)
    samples = [[*messages] for _, messages in by_agent]
    samples.sort(key=lambda each: each[0].stats.get("tokens_reused", 0))
    return [_cost(record, each, by) for each in samples]
