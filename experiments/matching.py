"""Self-consistency at the cost of another row: a pilot measures how many samples that makes.

The pilot draws a few samples for the row's first questions. It measures a question's first sample apart from further
ones, because these reuse the prompt that the first has read: k samples cost less than k times a single one. The pilot
is a row of its own, stored as `ROW/pilot`. It does not run again when the experiment is resumed: the number stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from statistics import fmean

from sottovoce.channels.message import Message
from sottovoce.core.errors import UsageError
from sottovoce.core.text import counted
from sottovoce.experiments.rows import Prepared
from sottovoce.runs.budget import Budget, Currency
from sottovoce.runs.record import DiscussionRecord, computed
from sottovoce.runs.run import Run

QUESTIONS, SAMPLES = 8, 4
"""Numbers of questions and samples in a pilot."""


def pilot_of(row: Prepared) -> Prepared:
    """Return the row that measures the cost of another row's samples; its folder is inside that row's folder."""
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
    """Return the name of a row's pilot."""
    return f"{row}/pilot"


def is_known(row: Prepared, runs: Mapping[str, Run]) -> bool:
    """Return whether the runs that determine a row's number of samples are over; True for an unmatched row."""
    needed = [] if row.matched is None else [row.matched.row, pilot_name(row.name)]
    return all(name in runs and is_over(runs[name]) for name in needed)


def check_order(rows: Mapping[str, Prepared], chosen: Sequence[str], runs: Mapping[str, Run]) -> None:
    """Check that no row runs before the one that it is matched to.

    Raises:
        UsageError: names both.
    """
    for name in chosen:
        if (matched := rows[name].matched) and matched.row not in chosen:
            if matched.row not in runs or not is_over(runs[matched.row]):
                raise UsageError(f"row {name!r} is matched to {matched.row!r}, which is not over; run that first")


def is_over(run: Run) -> bool:
    """Return whether each discussion ended, with a decision or a failure."""
    return all(record.status in ("done", "failed") for record in run.records.values())


def fitted(row: Prepared, runs: Mapping[str, Run]) -> tuple[Prepared, Budget | None]:
    """Return the row with its number of samples, and the budget that determines the number.

    Raises:
        UsageError: the cost of the row that it is matched to is unknown.
    """
    if row.matched is None:
        return row, None
    assert is_known(row, runs), "rows run in order, and no row runs after a stopped one"
    found = budget(row.matched.row, row.matched.by, runs[row.matched.row], runs[pilot_name(row.name)])
    return replace(row, settings=row.settings.model_copy(update={"samples": found.samples})), found


def budget(name: str, by: Currency, run: Run, pilot: Run) -> Budget:
    """Return the mean cost of a run's discussions, and the mean costs of the pilot's samples.

    Raises:
        UsageError: no discussion ended, or the FLOPs of a hosted model are needed.
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
    """Yield a sentence for each run with a budget: the budget, and the cost that was reached."""
    for name, run in runs.items():
        if (aim := run.manifest.budget) is not None and any(record.decision for record in run.records.values()):
            costs = _costs(name, run, aim.by)
            samples = counted(run.manifest.settings["samples"], "sample")
            yield (
                f"`{name}`: {samples} per question, to cost as much as a discussion of `{aim.row}`"
                f" ({aim.told(aim.target)} on average); they took {aim.told(fmean(costs))}"
                f" (n = {len(costs)}), {fmean(costs) / aim.target:.0%} of that."
                f" In a pilot of {counted(aim.questions, 'question')} the first sample of each took"
                f" {aim.told(aim.first)}, and each further one {aim.told(aim.further)}."
            )


def _done(run: Run) -> list[DiscussionRecord]:
    if found := [record for record in run.records.values() if record.status == "done"]:
        return found
    raise UsageError(f"no discussion of {str(run.folder)!r} ended, so its cost is unknown; remove it, or resume it")


def _costs(name: str, run: Run, by: Currency) -> list[float]:
    return [_cost(record, record.messages, by) for record in _done(run)]


def _cost(record: DiscussionRecord, messages: Sequence[Message], by: Currency) -> float:
    """Return the cost of some messages of a discussion."""
    if by == "tokens":
        return sum(computed(each) for each in messages if each.source in ("model", "hosted"))
    found = [record.flops_of(each) for each in messages]
    known = [each for each in found if each is not None]
    if len(known) < len(found):
        raise UsageError("the FLOPs of hosted models are unknown; match by tokens")
    return sum(known, 0.0)


def _samples(record: DiscussionRecord, by: Currency) -> list[float]:
    """Return the cost of each sample of a discussion, answer turns included; first the one that reused least."""
    by_agent = groupby(sorted(record.messages, key=lambda each: each.agent), lambda each: each.agent)
    samples = [[*messages] for _, messages in by_agent]
    samples.sort(key=lambda each: each[0].stats.get("tokens_reused", 0))
    return [_cost(record, each, by) for each in samples]
