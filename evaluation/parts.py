"""A transcript in parts, in the order in which they come: levels, rounds with their votes, what stands beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sottovoce.channels.message import Message
from sottovoce.evaluation import votes
from sottovoce.evaluation.describe import last_attempts
from sottovoce.evaluation.printable import one_line
from sottovoce.evaluation.record import Level, Run

SUMMARY = {"summarise": "Summaries of round {}"}
STAFF = {
    "list_candidates": "Candidates listed by the judge after round {}",
    "judge": "The judge's choice after round {}",
    "decide": "The secretary's answer after round {}",
}
"""Acts that begin when their round is over, in order of time."""
BESIDE = SUMMARY | STAFF
"""Acts with a heading of their own, after their round's."""

Lines = Mapping[int, Sequence[str]]
"""By round: what its votes come to."""


@dataclass(frozen=True)
class Part:
    """A heading with messages side by side, or with lines, or both."""

    heading: str
    messages: tuple[Message, ...] = ()
    lines: tuple[str, ...] = ()


def of_run(run: Run) -> Iterator[Part]:
    """The whole run between its opening and its decision."""
    counted = {count.round: votes.count(count.round, count.votes, run.question) for count in run.counts}
    starts = {level.round: number for number, level in enumerate(run.levels) if number}
    for round in sorted({message.round for message in run.messages} | starts.keys()):
        if round in starts:
            yield level(run.levels, starts[round])
        yield from rounds([message for message in run.messages if message.round == round], counted, order(run))


def rounds(messages: Sequence[Message], counted: Lines, order: Sequence[str]) -> Iterator[Part]:
    """Each round with the votes after it, then its summaries, then what the staff said of it."""
    shown = sorted(last_attempts(messages), key=lambda message: _seat(message, order))
    for round in sorted({message.round for message in shown}):
        of_round = [message for message in shown if message.round == round]
        spoken = tuple(message for message in of_round if message.act not in BESIDE)
        if spoken:
            yield Part(f"Round {round + 1}", spoken, tuple(counted.get(round, ())))
        for act, heading in BESIDE.items():
            row = tuple(message for message in of_round if message.act == act)
            if row:
                yield Part(heading.format(round + 1), row)


def level(levels: Sequence[Level], number: int) -> Part:
    """The groups of a higher level, and whom each of their agents represents."""
    before = levels[number - 1].groups
    sent = {name: f"{name} represents {', '.join(group)}" for group in before for name in group}
    groups = enumerate(levels[number].groups, 1)
    lines = [f"group {at}: {'; '.join(sent.get(name, name) for name in group)}" for at, group in groups]
    return Part(f"Level {number + 1}", lines=tuple(map(one_line, lines)))


def order(run: Run) -> list[str]:
    """The agents as they speak; [] where a record is older than levels."""
    return [name for group in run.levels[0].groups for name in group] if run.levels else []


def _seat(message: Message, order: Sequence[str]) -> int:
    """Staff stands after the agents that discuss; what is not in the order, as on the board."""
    return order.index(message.agent) if message.agent in order else len(order)
