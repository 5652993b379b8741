"""The accuracy of agents' answers by round."""

from __future__ import annotations

from collections.abc import Iterable

from sottovoce.analysis.discussion_metrics import Observation, observed
from sottovoce.analysis.statistics import Share, share
from sottovoce.runs.record import DiscussionRecord


def by_round(records: Iterable[DiscussionRecord]) -> dict[int, Share]:
    """Return the accuracy of `discussion_metrics` by 0-based round, with intervals clustered by question.

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
