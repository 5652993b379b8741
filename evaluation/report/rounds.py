"""How often agents' answers are right, round by round."""

from __future__ import annotations

from collections.abc import Iterable

from sottovoce.evaluation.runs.record import Record
from sottovoce.evaluation.statistics import Share, share
from sottovoce.nodes.question import question_id
from sottovoce.prompts import kinds


def by_round(records: Iterable[Record]) -> dict[int, Share]:
    """The share of answers that are right, by 0-based round, of discussions that ended and have a target.

    An abstention is wrong; intervals are clustered by question.

    Raises:
        UsageError: the extra `eval` is not installed.
    """
    found: dict[int, list[tuple[str, float]]] = {}
    for record in records:
        if record.decision is None or record.question.get("target") is None:
            continue
        for message, vote in record.votes():
            right = float(kinds.right(vote["answer"], record.question))
            found.setdefault(message.round, []).append((question_id(record.question), right))
    return {
        round: share([right for _, right in said], [question for question, _ in said])
        for round, said in sorted(found.items())
    }
