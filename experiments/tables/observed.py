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

SCORE, AGREEMENT = "score", "agreement"
GAIN = re.compile(r"score over (?P<row>\S+)")
IN_ROUND = re.compile(r"(?P<agent>\S+) in round (?P<round>[1-9]\d*)")
Values = Iterator[tuple[str, float]]
"""The question and the value of each discussion that the metric applies to."""


def observed(metric: str, row: str, runs: Mapping[str, Run]) -> Values:
    """Yield a row's values of "score", a measure, "agent_1 in round 2", "agreement in round 3" or "score over none".

    Scores are those of verdicts: a failure that the scheme or protocol can cause counts as wrong.
    """
    if (run := runs.get(row)) is None:
        return
    if gain := GAIN.fullmatch(metric):
        # By question and seed, so that both rows played the same game.
        baseline = runs[gain["row"]].results() if gain["row"] in runs else []
        before = {(result.question, result.seed): result.comparable_score for result in baseline}
        for result in run.results():
            base = before.get((result.question, result.seed))
            if result.comparable_score is not None and base is not None:
                yield result.question, result.comparable_score - base
    elif match := IN_ROUND.fullmatch(metric):
        yield from _in_round(run, match["agent"], int(match["round"]))
    else:
        for result in run.results():
            value = result.comparable_score if metric == SCORE else result.measures.get(metric)
            if value is not None:
                yield result.question, float(value)


def _in_round(run: Run, agent: str, number: int) -> Values:
    for record in run.records.values():
        if record.decision is None or record.question.get("target") is None:
            continue
        answers = _answers(record, number)
        if agent == AGREEMENT and len(answers) > 1:
            first, *others = answers.values()
            kind = record.question["kind"]
            agree = first is not None and all(kinds.same(first, answer, kind) for answer in others)
            yield question_id(record.question), float(agree)
        elif agent in answers:
            yield question_id(record.question), float(kinds.right(answers[agent], record.question))


def _answers(record: DiscussionRecord, number: int) -> dict[str, str | None]:
    """Return each agent's answer in a round, counted from 1."""
    last = max((message.round for message in record.messages), default=0)
    cuts = [reset.cut for reset in record.resets]
    state = cast(Discussion, {**record.question, "board": record.messages, "epochs": cuts, "round": last})
    rounds = rounds_of(state, scheme(record.scheme).answers)
    spoken = rounds[number - 1] if number <= len(rounds) else {}
    return {agent: voted(message, state)["answer"] for agent, message in spoken.items()}
