"""One run against another, over what both discussed: the difference, its tests, and the verdict in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from sottovoce.evaluation.runs.results import Result
from sottovoce.evaluation.statistics import ALPHA, Difference, holm, mcnemar, paired_bootstrap, smallest_difference
from sottovoce.evaluation.views.printable import counted

Scores = dict[tuple[str, int], float]
"""By question and seed."""


@dataclass(frozen=True)
class Matched:
    """What two runs have in common, key by key."""

    left: Scores
    right: Scores
    other_targets: tuple[str, ...]
    """Questions that each run scored against a target of its own: left out."""
    means: bool
    """Whether no seed was in both runs, and each question's mean over its seeds stands in their place."""


@dataclass(frozen=True)
class Pair:
    """One run against another."""

    run: str
    against: str
    questions: int
    """Scored in both runs."""
    discussions: int
    """Pairs of scores: as many as questions, or more where several seeds are in both runs."""
    difference: Difference
    """The accuracy of `run` less that of `against`; its p is the bootstrap's."""
    mcnemar: float | None
    """None where a question has several scores, or scores lie between 0 and 1."""
    corrected: float = 1.0
    """`p` after Holm's correction for all pairs of the comparison."""
    family: int = 1
    """So many pairs there are."""
    smallest: float | None = None
    """The true difference that would have shown in four of five such comparisons, about; None if no score differs."""

    @property
    def p(self) -> float:
        """The exact test's where it applies, the bootstrap's elsewhere."""
        return self.difference.p if self.mcnemar is None else self.mcnemar

    @property
    def verdict(self) -> str:
        """What the tests tell, in a sentence."""
        asked = counted(self.questions, "question")
        if self.corrected > ALPHA:
            return f"`{self.run}` and `{self.against}`: no difference that {asked} could show{self._would_show()}."
        found, sign = self.difference, 1 if self.difference.value > 0 else -1
        better, worse = (self.run, self.against)[::sign]
        low, high = sorted((sign * found.low, sign * found.high))
        by = f"{points(abs(found.value))} points (95 %: {points(low)} to {points(high)})"
        return f"`{better}` is better than `{worse}` by {by} on {asked}; {self._tested()}."

    def _would_show(self) -> str:
        if self.smallest is None or self.smallest >= 1:
            return ""
        return f"; one of about {points(self.smallest)} points would have shown in four of five such comparisons"

    def _tested(self) -> str:
        p = f"p = {self.corrected:.3f}" if self.corrected >= 0.001 else "p < 0.001"
        return p if self.family == 1 else f"{p} after Holm's correction for {self.family} comparisons"


def match(left: Sequence[Result], right: Sequence[Result]) -> Matched:
    """What of two runs can be compared: questions scored in both against one target, under the same seeds."""
    other = _other_targets(left, right)
    one, two = (scores(each for each in results if each.question not in other) for results in (left, right))
    means = not one.keys() & two.keys()
    if means:
        one, two = _by_question(one), _by_question(two)
    keys = [key for key in one if key in two]
    return Matched({key: one[key] for key in keys}, {key: two[key] for key in keys}, other, means)


def paired(run: str, against: str, matched: Matched) -> Pair:
    """The difference over what both have, with its two-sided tests; `matched` holds some, those of `run` right."""
    left, right = list(matched.left.values()), list(matched.right.values())
    differences = [after - before for before, after in zip(left, right, strict=True)]
    found = paired_bootstrap(differences, [question for question, _ in matched.left])
    exact = found.clusters == len(left) and {*left, *right} <= {0, 1}
    p = mcnemar([bool(score) for score in left], [bool(score) for score in right]) if exact else None
    return Pair(run, against, found.clusters, len(left), found, p)


def correct(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """The pairs of a comparison with Holm's p.

    The smallest difference is told at the level of his first step: the others only ease it.
    """
    n = len(pairs)
    return tuple(
        replace(pair, corrected=p, family=n, smallest=_smallest(pair, ALPHA / n))
        for pair, p in zip(pairs, holm([pair.p for pair in pairs]), strict=True)
    )


def scores(results: Iterable[Result]) -> Scores:
    """Of the discussions that ended, of questions with a target."""
    return {(each.question, each.seed): each.score for each in results if each.score is not None and not each.failed}


def points(part: float) -> str:
    """A part of 1 in percentage points."""
    return f"{100 * part:.1f}"


def _by_question(scores: Scores) -> Scores:
    found: dict[str, list[float]] = {}
    for (question, _), score in scores.items():
        found.setdefault(question, []).append(score)
    return {(question, 0): fmean(each) for question, each in found.items()}


def _other_targets(left: Iterable[Result], right: Iterable[Result]) -> tuple[str, ...]:
    targets = {each.question: each.target for each in left if each.score is not None}
    scored = [each for each in right if each.score is not None and each.question in targets]
    return tuple(dict.fromkeys(each.question for each in scored if each.target != targets[each.question]))


def _smallest(pair: Pair, alpha: float) -> float | None:
    error = pair.difference.error
    return smallest_difference(error, pair.questions, alpha=alpha) if error else None
