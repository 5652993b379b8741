"""Paired comparison of two runs over the questions of both: the difference, its tests, and the verdict in words.

Questions are the same if their digest (`question.digest`) is, whatever their ids. A failed discussion counts as wrong
unless its cause lies outside scheme and protocol (a server, a disk).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from sottovoce.analysis.statistics import ALPHA, Difference, as_tested, detectable, holm, mcnemar, paired_bootstrap
from sottovoce.core.text import counted
from sottovoce.runs.results import Result, Scores


@dataclass(frozen=True)
class Matched:
    """The scores that two runs have in common, by key."""

    left: Scores
    right: Scores
    other_targets: tuple[str, ...]
    """Questions that the runs scored against different targets; they are left out."""
    other_questions: tuple[str, ...]
    """Ids under which the runs asked different questions; they are left out."""
    only_means: bool
    """True if the runs share no seed, so that each question's mean over its seeds is compared."""


@dataclass(frozen=True)
class Pair:
    """One run against another."""

    run: str
    against: str
    questions: int
    """The number of questions scored in both runs."""
    discussions: int
    """Pairs of scores: as many as questions, or more if the runs share several seeds."""
    difference: Difference
    """The accuracy of `run` minus that of `against`; its p is the bootstrap's, its interval agrees with `p`."""
    mcnemar: float | None
    """The exact p of McNemar's test; None if a question has several scores, or scores lie between 0 and 1."""
    corrected: float = 1.0
    """`p` after Holm's correction for all pairs of the comparison."""
    family: int = 1
    """The number of pairs in the comparison."""
    smallest: float | None = None
    """The smallest true difference that four of five such comparisons would detect; None if they detect none."""

    @property
    def p(self) -> float:
        """Return the p of the exact test if it applies, else that of the bootstrap."""
        return self.difference.p if self.mcnemar is None else self.mcnemar

    @property
    def verdict(self) -> str:
        """Return the outcome of the tests as a sentence."""
        questions, difference = counted(self.questions, "question"), self.difference
        correction = "" if self.family == 1 else f" after Holm's correction for {self.family} comparisons"
        tested = f"{_p(self.corrected)}{correction}"
        if self.corrected <= ALPHA:
            sign = 1 if difference.value > 0 else -1
            better, worse = (self.run, self.against)[::sign]
            low, high = sorted((sign * difference.low, sign * difference.high))
            by = f"{points(abs(difference.value))} points (95 %: {points(low)} to {points(high)})"
            return f"`{better}` is better than `{worse}` by {by} on {questions}; {tested}."
        # The correction may make a difference insignificant although its interval excludes 0.
        alone = f" ({_p(self.p)} by itself, {tested})" if self.p <= ALPHA else ""
        shown = "not even the largest" if self.smallest is None else f"one of {points(self.smallest)} points"
        return (
            f"`{self.run}` and `{self.against}`: no difference that {questions} could show{alone}; differences below "
            f"{points(difference.low)} and above {points(difference.high)} points are excluded (95 %), and {shown} "
            "would have shown in four of five such comparisons."
        )


def _p(p: float) -> str:
    return f"p = {p:.3f}" if p >= 0.001 else "p < 0.001"


def match(left: Sequence[Result], right: Sequence[Result]) -> Matched:
    """Return the comparable scores of two runs: questions scored in both, against one target, under the same seeds.

    Two texts about different documents are different questions, unless one run's documents are a subset of the other's:
    that is one question under two conditions.
    """
    first, second = _by_name(left, right)
    ids, other_ids = ({result.question: name for (name, _), result in run.items()} for run in (first, second))
    names, other_names = {*ids.values()}, {*other_ids.values()}
    both = [id for id in ids if id in other_ids]
    others = [id for id in both if ids[id] not in other_names and other_ids[id] not in names]
    by_name = {name: result for (name, _), result in first.items()}
    pairs = [(by_name[name], result) for (name, _), result in second.items() if name in by_name]
    dealt = [after.question for before, after in pairs if not _nested({*before.documents}, {*after.documents})]
    scores, other_scores = (
        {key: score for key, result in run.items() if (score := result.comparable_score) is not None}
        for run in (first, second)
    )
    known = {key[0]: first[key].target for key in scores}
    targets = [
        second[key].question for key in other_scores if known.get(key[0], second[key].target) != second[key].target
    ]
    out = {
        name for run in (first, second) for (name, _), result in run.items() if result.question in {*targets, *dealt}
    }
    if only_means := not scores.keys() & other_scores.keys():
        scores, other_scores = _by_question(scores), _by_question(other_scores)
    keys = [key for key in scores if key in other_scores and key[0] not in out]
    return Matched(
        {key: scores[key] for key in keys},
        {key: other_scores[key] for key in keys},
        tuple(dict.fromkeys(targets)),
        tuple(dict.fromkeys([*others, *dealt])),
        only_means,
    )


def _by_name(*runs: Sequence[Result]) -> list[dict[tuple[str, int], Result]]:
    """Return the results by seed and the name they are compared under: the digest, with the question id if ambiguous.

    Several questions of one run may have the same digest and different documents. If any result lacks a digest,
    question ids are used.
    """
    whole = all(result.digest for results in runs for result in results)
    ids = [{(result.digest, result.question) for result in results} for results in runs]
    several = {digest for pairs in ids for digest, n in Counter(digest for digest, _ in pairs).items() if n > 1}

    def name(result: Result) -> str:
        if result.digest in several:
            return f"{result.question} {result.digest}"
        return result.digest if whole else result.question

    return [{(name(result), result.seed): result for result in results} for results in runs]


def _nested(left: set[str], right: set[str]) -> bool:
    return left <= right or right <= left


def _by_question(scores: Scores) -> Scores:
    scores_of: dict[str, list[float]] = {}
    for (question, _), score in scores.items():
        scores_of.setdefault(question, []).append(score)
    return {(question, 0): fmean(listed) for question, listed in scores_of.items()}


def paired(run: str, against: str, matched: Matched, family: int = 1) -> Pair:
    """Return the difference over the common scores, with its two-sided tests.

    `matched` must not be empty; its `right` scores are those of `run`. The smallest difference is computed at the
    level of the first step of Holm's correction for a `family` of pairs, the strictest one.
    """
    left, right = list(matched.left.values()), list(matched.right.values())
    differences = [after - before for before, after in zip(left, right, strict=True)]
    of, n = [question for question, _ in matched.left], len(left)
    bootstrap = paired_bootstrap(differences, of)
    exact = bootstrap.clusters == n and {*left, *right} <= {0, 1}
    p = mcnemar([bool(score) for score in left], [bool(score) for score in right]) if exact else None
    tested, smallest = as_tested(bootstrap, bootstrap.p if p is None else p), detectable(bootstrap, ALPHA / family)
    return Pair(run, against, bootstrap.clusters, n, tested, p, family=family, smallest=smallest)


def correct(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """Return the pairs of a comparison with `corrected` set to Holm's p."""
    corrected = holm([pair.p for pair in pairs])
    return tuple(replace(pair, corrected=p) for pair, p in zip(pairs, corrected, strict=True))


def points(part: float) -> str:
    """Format a share in percentage points."""
    return f"{100 * part + 0.0:.1f}".replace("-0.0", "0.0")
