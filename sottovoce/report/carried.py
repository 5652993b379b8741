"""The table of an experiment with points: how much is right at each, and what the messages carried for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from sottovoce.analysis.compare import Summary
from sottovoce.analysis.statistics import Share
from sottovoce.core.any_types import AnyState
from sottovoce.core.text import figure, one_line
from sottovoce.experiments.row_content import run_name
from sottovoce.experiments.schema import Experiment
from sottovoce.nodes.state import current_messages
from sottovoce.report.comparison import Table
from sottovoce.report.tables import share_cells
from sottovoce.runs.cost import computed_tokens
from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.run import Run

KILOBYTE = 1000


@dataclass(frozen=True)
class Carried:
    """A row at one point. Means are over the discussions that ended with a decision; None if unknown."""

    row: str
    point: str
    right: Share | None
    """The share of right answers, with failures as wrong."""
    message_bytes: float | None
    """Mean bytes of a message that another agent heard."""
    computed: float | None
    """Positions that a discussion computed."""
    seconds: float | None
    per_kilobyte: float | None
    """The share right above the floor x the point's number (1 if it has none), by the kB heard in a discussion."""


def carried(experiment: Experiment, runs: Mapping[str, Run], summaries: Sequence[Summary]) -> list[Carried]:
    """Return the rows at each point, in the order of the points; [] for an experiment without points."""
    by_run = {summary.run: summary for summary in summaries}
    names = [name for point in experiment.points for name, row in experiment.rows.items() if row.point == point]
    return [_carried(experiment, name, runs[name], by_run) for name in names if name in by_run]


def _carried(experiment: Experiment, name: str, run: Run, summaries: Mapping[str, Summary]) -> Carried:
    row, right = experiment.rows[name], summaries[name].failed_wrong
    done = [record for record in run.records.values() if record.decision]
    sizes = [size for record in done for size in heard_bytes(record)]
    floor, gain = summaries.get(run_name(experiment.floor or "", row.point)), None
    if sum(sizes) and floor and floor.run != name and floor.failed_wrong and right:
        number = experiment.axis[1].get(row.point, 1)
        gain = (right.value - floor.failed_wrong.value) * number * KILOBYTE * len(done) / sum(sizes)
    return Carried(
        row=row.name,
        point=row.point,
        right=right,
        message_bytes=fmean(sizes) if sizes else None,
        computed=fmean(sum(map(computed_tokens, record.messages)) for record in done) if done else None,
        seconds=summaries[name].seconds,
        per_kilobyte=gain,
    )


def heard_bytes(record: DiscussionRecord) -> Iterator[float]:
    """Yield the bytes of each message that another agent heard: of its payload, or of its words if it has no other.

    Nothing under a control, which replaces what is heard.
    """
    if record.settings.get("control", "none") != "none":
        return
    board: AnyState = {"board": record.messages, "epochs": [reset.cut for reset in record.resets]}
    messages, edges = current_messages(board), record.chosen().edges()
    for place, message in enumerate(messages):
        at = message.epoch, *message.time, message.act  # what was said in parallel has the same
        later = {each.agent for each in messages[place:] if (each.epoch, *each.time, each.act) != at}
        if any(speaker == message.agent and hearer in later for speaker, hearer in edges):
            words = message.text if message.public is None else message.public
            yield message.stats.get("carried_bytes") or float(len(words.encode()))


def carried_table(experiment: Experiment, rows: Sequence[Carried]) -> Table:
    """Return the table; empty cells are unknown or do not apply."""
    noun, _ = experiment.axis
    gain = [f"{noun or 'right'} per kB"] * bool(experiment.floor)
    headings = ["row", "point", "right", "95 %", "bytes a message", "positions", "seconds, in parallel", *gain]
    return Table(tuple(headings), tuple(_cells(row)[: len(headings)] for row in rows))


def _cells(row: Carried) -> tuple[str, ...]:
    numbers = (row.message_bytes, row.computed, row.seconds, row.per_kilobyte)
    shown = ("" if number is None else figure(number) for number in numbers)
    return (f"`{one_line(row.row)}`", row.point, *share_cells(row.right), *shown)
