"""A transcript in parts, in the order in which they come: levels, rounds with their votes, resets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from sottovoce.channels.message import Message
from sottovoce.evaluation.runs.record import Level, Reset, Run
from sottovoce.evaluation.views import votes
from sottovoce.evaluation.views.describe import last_attempts
from sottovoce.evaluation.views.printable import one_line
from sottovoce.graphs import scheme

When = tuple[int, float]
"""Epoch and round; a reset comes after all rounds."""


@dataclass(frozen=True)
class Part:
    """A heading with messages side by side, or with lines, or both."""

    heading: str
    messages: tuple[Message, ...] = ()
    lines: tuple[str, ...] = ()
    opens: bool = True
    """Whether all that stands before it is over when it begins."""


def of_run(run: Run) -> Iterator[Part]:
    """The whole run between its opening and its decision."""
    by_round = groupby(run.messages, key=lambda message: (message.epoch, message.round))
    rounds: dict[When, list[Message]] = {when: list(said) for when, said in by_round}
    levels: dict[When, Level] = {(level.epoch, level.round): level for level in run.levels if level.level}
    resets: dict[When, Reset] = {(epoch, float("inf")): reset for epoch, reset in enumerate(run.resets)}
    counts: dict[When, list[str]] = {
        (count.epoch, count.round): votes.count(count.round, count.votes, run.question) for count in run.counts
    }
    for when in sorted(rounds.keys() | levels.keys() | resets.keys()):
        if when in levels:
            yield _level(levels[when], run.levels)
        yield from _round(run, rounds.get(when, []), counts.get(when, []))
        if when in resets:
            yield _reset(resets[when])


def _round(run: Run, messages: Sequence[Message], counted: Sequence[str]) -> Iterator[Part]:
    """What was said in a round under the headings of its acts; its votes stand after its answers."""
    record, discussing = scheme(run.scheme), len(run.chosen().speakers())
    rows: dict[str, list[Message]] = {}
    for message in last_attempts(messages):
        withdrawn = ", withdrawn" if run.withdrew(message) else ""
        rows.setdefault(record.heading(message.act, message.round) + withdrawn, []).append(message)
    for number, (heading, row) in enumerate(rows.items()):
        lines = counted if any(message.act in record.answers for message in row) else ()
        yield Part(heading, tuple(row), tuple(lines), opens=not number or row[0].order >= discussing)


def _level(level: Level, levels: Sequence[Level]) -> Part:
    """The groups of a higher level, and whom each of their agents represents."""
    before = next(each.groups for each in reversed(levels) if each.level == level.level - 1)
    sent = {name: f"{name} represents {', '.join(group)}" for group in before for name in group}
    groups = enumerate(level.groups, 1)
    lines = [f"group {at}: {'; '.join(sent.get(name, name) for name in group)}" for at, group in groups]
    return Part(f"Level {level.level + 1}", lines=tuple(map(one_line, lines)))


def _reset(reset: Reset) -> Part:
    return Part(f"Taken back to round {reset.cut[0] + 1}", lines=(one_line(reset.why),) if reset.why else ())
