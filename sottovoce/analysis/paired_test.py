"""Paired comparison of two runs over the questions of both: the difference, its tests, and the verdict in words.

Questions are the same if their digest (`question.digest`) is, whatever their ids. A failed discussion counts as wrong
unless its cause lies outside scheme and protocol (a server, a disk).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from sottovoce.analysis.power import smallest_of_clusters, smallest_of_pairs
from sottovoce.analysis.statistics import ALPHA, Difference, as_tested, holm, mcnemar, paired_bootstrap
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
        questions = counted(self.questions, "question")
        if self.corrected > ALPHA:
            none = f"`{self.run}` and `{self.against}`: no difference that {questions} could show{self._by_itself()}"
            return f"{none}; {self._excluded()}, and {self._would_show()}."
        difference, sign = self.difference, 1 if self.difference.value > 0 else -1
        better, worse = (self.run, self.against)[::sign]
        low, high = sorted((sign * difference.low, sign * difference.high))
        by = f"{points(abs(difference.value))} points (95 %: {points(low)} to {points(high)})"
        tested = f"{self._tested(self.corrected)}{self._after()}"
        return f"`{better}` is better than `{worse}` by {by} on {questions}; {tested}."

    def _by_itself(self) -> str:
        """Explain an interval that excludes 0 next to "no difference": the correction made it insignificant."""
        if self.p > ALPHA:
            return ""
        return f" ({self._tested(self.p)} by itself, {self._tested(self.corrected)}{self._after()})"

    def _excluded(self) -> str:
        low, high = self.difference.low, self.difference.high
        return f"differences below {points(low)} and above {points(high)} points are excluded (95 %)"

    def _would_show(self) -> str:
        """Say which difference the test in use would have detected, at the level of Holm's first step."""
        if self.smallest is None:
            return "not even the largest would have shown in four of five such comparisons"
        return f"one of {points(self.smallest)} points would have shown in four of five such comparisons"

    def _tested(self, p: float) -> str:
        return f"p = {p:.3f}" if p >= 0.001 else "p < 0.001"

    def _after(self) -> str:
        return "" if self.family == 1 else f" after Holm's correction for {self.family} comparisons"


def match(left: Sequence[Result], right: Sequence[Result]) -> Matched:
    """Return the comparable scores of two runs: questions scored in both, against one target, under the same seeds."""
    names = _names(left, right)
    targets = _other_targets(left, right, names)
    dealt = _other_documents(left, right, names)
    out = {names[id(result)] for result in (*left, *right) if result.question in {*targets, *dealt}}
    first, second = (
        {
            (names[id(result)], result.seed): result.comparable_score
            for result in results
            if result.comparable_score is not None
        }
        for results in (left, right)
    )
    only_means = not first.keys() & second.keys()
    if only_means:
        first, second = _by_question(first), _by_question(second)
    keys = [key for key in first if key in second and key[0] not in out]
    questions = dict.fromkeys((*_other_questions(left, right, names), *dealt))
    return Matched(
        {key: first[key] for key in keys}, {key: second[key] for key in keys}, targets, tuple(questions), only_means
    )


def paired(run: str, against: str, matched: Matched, family: int = 1) -> Pair:
    """Return the difference over the common scores, with its two-sided tests.

    `matched` must not be empty; its `right` scores are those of `run`. The smallest difference is computed at the
    level of the first step of Holm's correction for a `family` of pairs, the strictest one.
    """
    left, right = list(matched.left.values()), list(matched.right.values())
    differences = [after - before for before, after in zip(left, right, strict=True)]
    of, n, alpha = [question for question, _ in matched.left], len(left), ALPHA / family
    bootstrap = paired_bootstrap(differences, of)
    exact = bootstrap.clusters == n and {*left, *right} <= {0, 1}
    p = mcnemar([bool(score) for score in left], [bool(score) for score in right]) if exact else None
    if exact:
        smallest = smallest_of_pairs(n, sum(map(bool, differences)) / n, alpha)
    else:
        smallest = smallest_of_clusters(differences, of, alpha)
    tested = as_tested(bootstrap, bootstrap.p if p is None else p)
    return Pair(run, against, bootstrap.clusters, n, tested, p, family=family, smallest=smallest)


def correct(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """Return the pairs of a comparison with `corrected` set to Holm's p."""
    corrected = holm([pair.p for pair in pairs])
    return tuple(replace(pair, corrected=p) for pair, p in zip(pairs, corrected, strict=True))


def points(part: float) -> str:
    """Format a share in percentage points."""
    return f"{100 * part + 0.0:.1f}".replace("-0.0", "0.0")


def _names(left: Sequence[Result], right: Sequence[Result]) -> dict[int, str]:
    """Map the `id()` of each result to the name it is compared under: its digest, with the question id if ambiguous.

    Several questions of one run may have the same digest and different documents. If any result lacks a digest,
    question ids are used.
    """
    whole = all(result.digest for result in (*left, *right))
    ids = [{(result.digest, result.question) for result in results} for results in (left, right)]
    several = {digest for pairs in ids for digest, n in Counter(digest for digest, _ in pairs).items() if n > 1}
    return {
        id(result): f"{result.question} {result.digest}"
        if result.digest in several
        else result.digest
        if whole
        else result.question
        for result in (*left, *right)
    }


def _by_question(scores: Scores) -> Scores:
    scores_of: dict[str, list[float]] = {}
    for (question, _), score in scores.items():
        scores_of.setdefault(question, []).append(score)
    return {(question, 0): fmean(listed) for question, listed in scores_of.items()}


def _other_questions(left: Iterable[Result], right: Iterable[Result], names: dict[int, str]) -> tuple[str, ...]:
    """Return the ids that both runs use for different questions, each absent from the other run."""
    names_left, names_right = ({result.question: names[id(result)] for result in results} for results in (left, right))
    both = (id for id in names_left if id in names_right)
    return tuple(
        id for id in both if names_left[id] not in names_right.values() and names_right[id] not in names_left.values()
    )


def _other_documents(left: Iterable[Result], right: Iterable[Result], names: dict[int, str]) -> tuple[str, ...]:
    """Return the questions that the runs ask about different documents.

    If one run's documents are a subset of the other's, it is one question under two conditions.
    """
    dealt = {names[id(result)]: {*result.documents} for result in left}
    pairs = [(result.question, {*result.documents}, dealt.get(names[id(result)])) for result in right]
    questions = [
        id
        for id, documents, of_left in pairs
        if of_left is not None and not (documents <= of_left or of_left <= documents)
    ]
    return tuple(dict.fromkeys(questions))


def _other_targets(left: Iterable[Result], right: Iterable[Result], names: dict[int, str]) -> tuple[str, ...]:
    targets = {names[id(result)]: result.target for result in left if result.comparable_score is not None}
    scored = [result for result in right if result.comparable_score is not None and names[id(result)] in targets]
    return tuple(dict.fromkeys(result.question for result in scored if result.target != targets[names[id(result)]]))
