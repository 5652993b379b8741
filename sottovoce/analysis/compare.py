"""Comparison of runs: accuracy, cost, and which differences are real.

A failed discussion is left out of accuracy, counted and named. A second accuracy counts failures as wrong; verdicts use
it for failures that scheme or protocol can cause, not for failures of a server or a disk. An abstention is a wrong
answer. Differences are taken question by question over the questions of both runs. Questions with equal content are the
same (`same_questions`), whatever their ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from statistics import fmean

from sottovoce.analysis.statistics import (
    ALPHA,
    Difference,
    Mean,
    Share,
    detectable,
    holm,
    mean,
    paired_test,
    share,
)
from sottovoce.core.errors import UsageError, nearest
from sottovoce.core.text import counted, one_line
from sottovoce.nodes.question import Content, same_questions
from sottovoce.runs.record import Result, Results, Scores

NO_LIMIT = ("0.0", "-100.0", "100.0")
"""Printed ends of an interval that exclude nothing: the interval reaches 0 or so near, or a largest difference."""
LOST = 0.1
"""A run that lost a larger share of its discussions has no verdicts."""
Named = tuple[int, str]
"""A question of two runs: 0 for the left or 1 for the right one, and its id."""


@dataclass(frozen=True)
class Matched:
    """The scores that two runs have in common: each question's mean over its seeds."""

    left: Mapping[Named, float]
    right: Mapping[Named, float]
    other_targets: tuple[str, ...]
    """Ids of questions that the runs scored against different targets; they are left out."""
    other_questions: tuple[str, ...]
    """Ids of questions about other documents, or of different questions under the same id; they are left out."""
    other_seeds: bool
    """True if a common question was scored under other seeds in one run than in the other."""


@dataclass(frozen=True)
class Pair:
    """One run against another."""

    run: str
    against: str
    questions: int
    """The number of questions scored in both runs."""
    difference: Difference
    """The accuracy of `run` minus that of `against`."""
    corrected: float = 1.0
    """Its p after Holm's correction for all pairs of the comparison."""
    family: int = 1
    """The number of pairs in the comparison."""
    smallest: float | None = None
    """The smallest true difference that four of five such comparisons would detect; None if they detect none."""

    @property
    def verdict(self) -> str:
        """Return the outcome of the tests as a sentence."""
        questions, difference = counted(self.questions, "question"), self.difference
        correction = "" if self.family == 1 else f" after Holm's correction for {self.family} comparisons"
        tested = f"{p_in_words(self.corrected)}{correction}"
        if self.corrected <= ALPHA:
            sign = 1 if difference.value > 0 else -1
            better, worse = (self.run, self.against)[::sign]
            low, high = sorted((sign * difference.low, sign * difference.high))
            by = f"{points(abs(difference.value))} points (95 %: {points(low)} to {points(high)})"
            return f"`{better}` is better than `{worse}` by {by} on {questions}; {tested}."
        # The correction may make a difference insignificant although its interval excludes 0.
        alone = f" ({p_in_words(difference.p)} by itself, {tested})" if difference.p <= ALPHA else ""
        shown = "not even the largest" if self.smallest is None else f"one of {points(self.smallest)} points"
        limits = [("below", difference.low), ("above", difference.high)]
        excluded = [f"{side} {points(limit)}" for side, limit in limits if points(limit) not in NO_LIMIT]
        known = f"differences {' and '.join(excluded)} points are excluded (95 %), and " if excluded else ""
        return (
            f"`{self.run}` and `{self.against}`: no difference that {questions} could show{alone}; {known}{shown} "
            "would have shown in four of five such comparisons."
        )


def p_in_words(p: float) -> str:
    """Return a p value to three decimal places, with its sign."""
    return f"p = {p:.3f}" if p >= 0.001 else "p < 0.001"


def match(left: Sequence[Result], right: Sequence[Result]) -> Matched:
    """Return the comparable scores of two runs, of questions scored in both against one target.

    Two texts about different documents are different questions, unless one run's documents are a subset of the other's:
    that is one question under two conditions. The score of a question is the mean over its seeds and ids.
    """
    scored = [[result for result in run if result.comparable_score is not None] for run in (left, right)]
    contents = {(side, result.question): result.content for side in (0, 1) for result in scored[side]}
    names = _paired_names(contents)
    by_question: list[dict[Named, list[tuple[int, float]]]] = [{}, {}]
    for side, of in enumerate(by_question):
        for each in scored[side]:
            of.setdefault(names[side, each.question], []).append((each.seed, each.comparable_score or 0.0))
    common = [{name: of[name] for name in by_question[0] if name in by_question[1]} for of in by_question]
    means = [{name: fmean(score for _, score in listed) for name, listed in of.items()} for of in common]
    seeds = [{(name, seed) for name, listed in of.items() for seed, _ in listed} for of in common]
    targets, others = _unpaired(contents, names)
    return Matched(means[0], means[1], tuple(targets), tuple(others), seeds[0] != seeds[1])


def _paired_names(contents: Mapping[Named, Content]) -> dict[Named, Named]:
    """Return a name for each question of two runs; paired questions have the same name."""
    first = same_questions(contents)
    sides = Counter(name for name, _ in dict.fromkeys((first[key], key[0]) for key in contents))
    groups = dict[str, list[list[Named]]]()  # the others, joined where one's documents contain the other's
    for key in (key for key, runs in sides.items() if runs == 1):
        alike, own = groups.setdefault(contents[key].asked, []), contents[key]
        near = [
            group
            for group in alike
            if any(side != key[0] and _nested(own, contents[side, id], targets=True) for side, id in group)
        ]
        alike[:] = [*(group for group in alike if group not in near), [key, *chain(*near)]]
    joined = {key: group[0] for alike in groups.values() for group in alike for key in group}
    return {key: joined.get(name, name) for key, name in first.items()}


def _unpaired(contents: Mapping[Named, Content], names: Mapping[Named, Named]) -> tuple[list[str], list[str]]:
    """Return the ids of the right run with another target than in the left run, and ids of other questions."""
    paired = [{name for (run, _), name in names.items() if run == side} for side in (0, 1)]
    rivals = dict[str, list[Content]]()
    for (side, _), content in contents.items():
        rivals.setdefault(content.asked, []).extend([content] * (side == 0))
    targets, others = list[str](), list[str]()
    for (side, id), content in contents.items():
        if side == 0 or names[side, id] in paired[0]:
            continue
        alike = rivals[content.asked]
        if any(_nested(content, each) and not content.has_target_of(each) for each in alike):
            targets.append(id)
        elif alike or ((0, id) in names and names[0, id] not in paired[1]):
            others.append(id)
    return targets, others


def _nested(left: Content, right: Content, *, targets: bool = False) -> bool:
    """Return whether one's documents contain the other's, and with `targets` whether their targets are one."""
    nested = left.documents <= right.documents or right.documents <= left.documents
    return nested and (not targets or left.has_target_of(right))


def _tested(common: Mapping[tuple[str, str], Matched]) -> Iterable[Pair]:
    """Yield the pairs of a comparison, with the differences over their common questions and two-sided tests.

    The smallest difference is computed at the level of the first step of Holm's correction, the strictest one.
    """
    scores = {names: [of.right[name] - before for name, before in of.left.items()] for names, of in common.items()}
    tests = {names: paired_test(differences) for names, differences in scores.items()}
    corrected = holm([test.p for test in tests.values()])
    for (names, test), p in zip(tests.items(), corrected, strict=True):
        yield Pair(*names, test.clusters, test, p, len(common), detectable(test, ALPHA / len(common)))


def points(part: float) -> str:
    """Format a share in percentage points."""
    return f"{100 * part + 0.0:.1f}".replace("-0.0", "0.0")


NAMED = 5
"""Maximum number of questions that a note names; the others are counted."""


@dataclass(frozen=True)
class Summary:
    """One run by itself. Tokens, FLOPs and seconds are means over the discussions that did not fail."""

    run: str
    questions: int
    discussions: int
    """Discussions of these questions under all seeds, failed ones included."""
    scored: int
    """Discussions that ended with a decision, of questions with a target."""
    accuracy: Share | None
    """Their mean score, with an interval clustered by question; None if nothing was scored."""
    failed_wrong: Share | None
    """The same, with failed discussions of questions with a target counted as wrong."""
    abstained: int
    failed: int
    lost: int
    """Failed discussions that are left out of verdicts: neither scheme nor protocol can be the cause."""
    calls: float | None
    """None, here and below, if all discussions failed."""
    tokens_in: float | None
    tokens_reused: float | None
    tokens_out: float | None
    flops: float | None
    """None also if a hosted model replied."""
    seconds: float | None
    measures: Mapping[str, Mean]
    """Means of the measures that apply to any discussion, by name."""


@dataclass(frozen=True)
class Comparison:
    """The comparison of some runs."""

    runs: tuple[Summary, ...]
    pairs: tuple[Pair, ...]
    notes: tuple[str, ...]
    """Sentences about what was left out, and why."""

    @property
    def warning(self) -> str:
        """The first line: how many discussions of each run failed (of many, those with any), if the shares differ."""
        few = len(self.runs) <= NAMED
        counts = ", ".join(f"`{run.run}` {run.failed} of {run.discussions}" for run in self.runs if run.failed or few)
        differ = len({run.failed / run.discussions for run in self.runs}) > 1
        return one_line(f"Runs lost different shares of their discussions to failures: {counts}.") if differ else ""


Against = str | Mapping[str, str] | None
"""The run that others are compared with, or the one for each run; None to compare all pairs."""


def compare(
    runs: Mapping[str, Sequence[Result]], against: Against = None, notes: Iterable[str] = (), *, force: bool = False
) -> Comparison:
    """Compare runs by name: each with those before it, all with `against`, or each with its own counterpart, if any.

    `notes` are further sentences about the runs; they come first in the result. With `force`, runs that lost more than
    a tenth of their discussions have verdicts too.

    Raises:
        UsageError: there are no runs, a run is empty or contains a discussion twice, or there is no run `against`.
    """
    if not runs:
        raise UsageError("there are no runs to compare; name some")
    if isinstance(against, str) and against not in runs:
        raise UsageError(nearest("run", against, list(runs)))
    for name, results in runs.items():
        if not results:
            raise UsageError(f"run {name!r} contains no discussions; expected at least one")
        (question, seed), times = Counter((result.question, result.seed) for result in results).most_common(1)[0]
        if times > 1:
            raise UsageError(f"run {name!r} contains question {question!r}, seed {seed} twice; expected it once")
    matched = {(run, baseline): match(runs[baseline], runs[run]) for baseline, run in _couples(runs, against)}
    summaries = {name: summary(name, Results(results)) for name, results in runs.items()}
    lossy = {name for name, each in summaries.items() if each.lost > LOST * each.discussions and not force}
    common = {names: scores for names, scores in matched.items() if scores.left and lossy.isdisjoint(names)}
    return Comparison(
        tuple(summaries.values()),
        tuple(_tested(common)),
        (
            *notes,
            *(note for name, results in runs.items() for note in _left_out(name, results)),
            *(note for names, scores in matched.items() for note in _unmatched(names, scores, lossy)),
        ),
    )


def _couples(runs: Collection[str], against: Against) -> Iterable[tuple[str, str]]:
    """Yield the pairs to compare: a baseline and a run."""
    if against is None:
        return combinations(runs, 2)
    if isinstance(against, str):
        return ((against, name) for name in runs if name != against)
    return ((baseline, name) for name, baseline in against.items() if name in runs and baseline in runs)


def summary(name: str, results: Results) -> Summary:
    """Return a run's accuracy, costs and measures."""
    ended = [result for result in results if not result.failed]
    clusters = results.clusters
    means = ("calls", "tokens_in", "tokens_reused", "tokens_out", "flops", "seconds")
    return Summary(
        run=name,
        questions=len({*clusters.values()}),
        discussions=len(results),
        scored=len(scores := results.scores()),
        accuracy=_share(scores, clusters),
        failed_wrong=_share(results.scores("failed_wrong"), clusters),
        abstained=sum(result.abstained for result in results),
        failed=len(results) - len(ended),
        lost=sum(result.failed and result.outside for result in results),
        measures=mean_measures(results),
        **{each: _mean([getattr(result, each) for result in ended]) for each in means},
    )


def mean_measures(results: Results) -> dict[str, Mean]:
    """Return the mean of each measure that applies to any discussion, with an interval clustered by question."""
    clusters, shares = results.clusters, results.shares
    known = {name: values for name, values in results.measures.items() if values}
    return {
        name: mean([*values.values()], [clusters[question] for question, _ in values], shares=name in shares)
        for name, values in known.items()
    }


def _share(scores: Scores, clusters: Mapping[str, str]) -> Share | None:
    return share([*scores.values()], [clusters[question] for question, _ in scores]) if scores else None


def _mean(values: list[float | None]) -> float | None:
    """Return the mean; None if there are no values or one is unknown."""
    known = [value for value in values if value is not None]
    return fmean(known) if known and len(known) == len(values) else None


def _left_out(name: str, results: Sequence[Result]) -> Iterable[str]:
    if outside := _named(result.question for result in results if result.failed and result.outside):
        yield f"`{name}`: failed by causes outside of scheme and protocol, and left out of verdicts too: {outside}."
    if failed := _named(result.question for result in results if result.failed and not result.outside):
        yield f"`{name}`: failed, left out of accuracy, and wrong in verdicts: {failed}."
    if unscored := _named(result.question for result in results if result.score is None and not result.failed):
        yield f"`{name}`: without a target, and left out of accuracy: {unscored}."


def _unmatched(names: tuple[str, str], matched: Matched, lossy: Collection[str]) -> Iterable[str]:
    both = f"`{names[0]}` and `{names[1]}`"
    if matched.other_targets:
        yield f"{both}: scored against different targets, and left out of the pair: {_named(matched.other_targets)}."
    if matched.other_questions:
        yield f"{both}: different questions under the same id, not paired: {_named(matched.other_questions)}."
    if not matched.left:
        yield f"{both}: not compared, as they have no scored question in common."
    elif lost := [f"`{name}`" for name in names if name in lossy]:
        yield f"{both}: no verdict, as {' and '.join(lost)} lost more than a tenth; run it again, or add --force."
    elif matched.other_seeds:
        yield f"{both}: scored under different seeds; each question's mean over its seeds is compared."


def _named(questions: Iterable[str]) -> str:
    """Return the first few questions by name and the number of further ones; empty if there are none."""
    distinct = list(dict.fromkeys(questions))
    more = f" and {len(distinct) - NAMED} more" if len(distinct) > NAMED else ""
    return one_line(", ".join(distinct[:NAMED])) + more
