"""The accuracy of agents' answers by round."""

from __future__ import annotations

from collections.abc import Iterable

from sottovoce.evaluation.discussing import Observation, observed
from sottovoce.evaluation.runs.record import Record
from sottovoce.evaluation.statistics import Share, share


def by_round(records: Iterable[Record]) -> dict[int, Share]:
    """Return the accuracy of `discussing` by 0-based round, with intervals clustered by question.

    Raises:
        UsageError: the extra `eval` is not installed.
    """
    found: dict[int, list[Observation]] = {}
    for each in observed(records):
        if each.measure == "accuracy" and each.round is not None:
            found.setdefault(each.round, []).append(each)
    return {
        round: share([float(each.happened) for each in said], [each.question for each in said])
        for round, said in sorted(found.items())
    }
