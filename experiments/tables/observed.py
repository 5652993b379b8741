"""Values of a table's metrics: the score, a measure, an agent's answers in a round, or a gain over another row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import cast

from sottovoce.graphs import scheme
from sottovoce.nodes.decide import voted
from sottovoce.nodes.question import question_id
from sottovoce.nodes.state import Discussion, rounds_of
from sottovoce.prompts import kinds
from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.run import Run

SCORE = "score"
GAIN = re.compile(r"score over (?P<row>\S+)")
IN_ROUND = re.compile(r"(?P<who>\S+) in round (?P<round>[1-9]\d*)")
AGREEMENT = "agreement"
Values = Iterator[tuple[str, float]]
"""The question and the value of each discussion that the metric applies to."""


def observed(what: str, row: str, runs: Mapping[str, Run]) -> Values:
    """Yield a row's values of "score", a measure, "agent_1 in round 2", "agreement in round 3" or "score over none".

    Scores are those of verdicts: a failure that the scheme or protocol can cause counts as wrong.
    """
    if (run := runs.get(row)) is None:
        return
    if gain := GAIN.fullmatch(what):
        yield from _gains(run, runs.get(gain["row"]))
    elif said := IN_ROUND.fullmatch(what):
        yield from _in_round(run, said["who"], int(said["round"]))
    else:
        for result in run.results():
            value = result.comparable_score if what == SCORE else result.measures.get(what)
            if value is not None:
                yield result.question, float(value)


def _gains(run: Run, other: Run | None) -> Values:
    """Yield gains by question and seed, so that both rows played the same game."""
    before = {(each.question, each.seed): each.comparable_score for each in (other.results() if other else [])}
    for each in run.results():
        was = before.get((each.question, each.seed))
        if each.comparable_score is not None and was is not None:
            yield each.question, each.comparable_score - was


def _in_round(run: Run, who: str, number: int) -> Values:
    for record in run.records.values():
        if record.decision is None or record.question.get("target") is None:
            continue
        answers = _answers(record, number)
        if who == AGREEMENT and len(answers) > 1:
            yield question_id(record.question), float(_agree([*answers.values()], record))
        elif who in answers:
            yield question_id(record.question), float(kinds.right(answers[who], record.question))


def _answers(record: DiscussionRecord, number: int) -> dict[str, str | None]:
    """Return each agent's answer in a round, counted from 1."""
    last = max((message.round for message in record.messages), default=0)
    cuts = [reset.cut for reset in record.resets]
    state = cast(Discussion, {**record.question, "board": record.messages, "epochs": cuts, "round": last})
    rounds = rounds_of(state, scheme(record.scheme).answers)
    spoken = rounds[number - 1] if number <= len(rounds) else {}
    return {agent: voted(message, state)["answer"] for agent, message in spoken.items()}


def _agree(answers: list[str | None], record: DiscussionRecord) -> bool:
    first, kind = answers[0], record.question["kind"]
    return first is not None and all(kinds.same(first, each, kind) for each in answers[1:])
