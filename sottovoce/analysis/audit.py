"""Re-scoring of a run from its records under other scoring policies, to see how far the result depends on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import fmean

from sottovoce.analysis.published_scorers import SCORERS, Scorer
from sottovoce.analysis.statistics import Difference, Share, paired_bootstrap, share
from sottovoce.core.any_types import Unimported
from sottovoce.nodes.decide import leading, viewpoints
from sottovoce.nodes.state import Decision
from sottovoce.prompts import kinds
from sottovoce.runs.record import DiscussionRecord, abstains
from sottovoce.runs.run import Key, Run

OURS = "ours"
FAILED = "failed as wrong"
"""The policy that counts failed discussions too, as verdicts do where scheme or protocol can cause them."""
Policy = Callable[[DiscussionRecord, Decision], float | None]
"""Scores a discussion in [0, 1]; None leaves it out."""


@dataclass(frozen=True)
class Audited:
    """A run under one policy."""

    policy: str
    counted: int
    """The number of discussions."""
    accuracy: Share
    difference: Difference | None
    """The difference from ours, over the discussions of both; None for ours itself and if failed ones are counted."""
    better: tuple[str, ...]
    """Questions that score higher than under ours, one entry per discussion."""
    worse: tuple[str, ...]


def audit(run: Run) -> list[Audited]:
    """Return the run under all policies that apply to any of its discussions; [] if no question has a target."""
    scores_by_policy = {name: _scores(run, policy) for name, policy in POLICIES.items()}
    results = run.results()
    if any(result.failed for result in results):
        scores_by_policy[FAILED] = results.scores("failed_wrong")
    return [_audited(name, scores, scores_by_policy[OURS]) for name, scores in scores_by_policy.items() if scores]


def _scores(run: Run, policy: Policy) -> dict[Key, float]:
    decided = ((key, record, record.decision) for key, record in run.records.items())
    scored = {key: policy(record, end) for key, record, end in decided if end and end["score"] is not None}
    return {key: score for key, score in scored.items() if score is not None}


def _audited(name: str, scores: Mapping[Key, float], ours: Mapping[Key, float]) -> Audited:
    changes = {key: score - ours[key] for key, score in scores.items() if key in ours}
    clusters = [question for question, _ in scores]
    better, worse = (tuple(key[0] for key, by in changes.items() if sign * by > 0) for sign in (1, -1))
    unlike = name == OURS or not changes or len(changes) < len(scores)  # ours has no score for failed ones
    difference = None if unlike else paired_bootstrap([*changes.values()], clusters)
    return Audited(name, len(scores), share([*scores.values()], clusters), difference, better, worse)


# Policies


def _mean_of_agents(record: DiscussionRecord, decision: Decision) -> float | None:
    """Return the mean over the agents' own answers; an unreadable answer is wrong."""
    votes = decision["votes"]
    return fmean(kinds.right(vote["answer"], record.question) for vote in votes) if votes else None


def _ties_last(record: DiscussionRecord, decision: Decision) -> float | None:
    """Score the most frequent answer; of equally frequent ones, that of the last agent."""
    if not decision["votes"]:
        return None
    best = leading(viewpoints([*reversed(decision["votes"])], record.question))
    return float(bool(best) and kinds.right(best[0].answer, record.question))


def _published(scorers: Mapping[str, Scorer]) -> Policy:
    """Return a policy that scores the texts of the last round as a paper's own program does."""

    def policy(record: DiscussionRecord, decision: Decision) -> float | None:
        scorer, texts = scorers.get(kinds.kind_of(record.question)), record.last_texts()
        return scorer(texts, gold_of(record.question), record.question.get("choices", [])) if scorer and texts else None

    return policy


def gold_of(question: Mapping[str, Unimported]) -> str:
    """Return the right answer as its data set prints it: also after "####" in a solution (GSM8K), or a letter."""
    solution = str(question.get("solution", ""))
    behind = solution.rpartition("####")[2].strip() if "####" in solution else ""
    return str(question.get("printed_target") or behind or kinds.target_of(question) or "")


POLICIES: dict[str, Policy] = {
    OURS: lambda _, decision: decision["score"],
    "abstention excluded": lambda _, decision: None if abstains(decision) else decision["score"],
    "abstention wrong": lambda _, decision: 0.0 if abstains(decision) else decision["score"],
    "each agent by itself": _mean_of_agents,
    "majority, ties to the last": _ties_last,
    **{name: _published(scorers) for name, scorers in SCORERS.items()},
}
