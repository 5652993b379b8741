"""Comparison of runs: accuracy, cost, and which differences are real.

A failed discussion is left out of accuracy, counted and named. A second accuracy counts failures as wrong; verdicts
use it for failures that scheme or protocol can cause. An abstention is a wrong answer.
Differences are taken question by question over the questions of both runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from sottovoce.analysis.paired_test import Matched, Pair, correct, match, paired
from sottovoce.analysis.statistics import Mean, Share, mean, share
from sottovoce.core.errors import UsageError, choose
from sottovoce.core.text import one_line
from sottovoce.runs.cost import MONEY
from sottovoce.runs.results import Result, Results, Scores

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
    tokens_in: float | None
    """None, here and below, if all discussions failed."""
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


Against = str | Mapping[str, str] | None
"""The run that others are compared with, or the one for each run; None to compare all pairs."""


def compare(runs: Mapping[str, Sequence[Result]], against: Against = None, notes: Iterable[str] = ()) -> Comparison:
    """Compare runs by name: each against those before it, all `against` one, or each against one of its own, if any.

    `notes` are further sentences about the runs; they come first in the result.

    Raises:
        UsageError: there are no runs, a run is empty or contains a discussion twice, or there is no run `against`.
    """
    _check(runs, against)
    matched = {(run, baseline): match(runs[baseline], runs[run]) for baseline, run in _couples(runs, against)}
    common = {names: scores for names, scores in matched.items() if scores.left}
    return Comparison(
        tuple(summary(name, Results(results)) for name, results in runs.items()),
        correct([paired(*names, scores, len(common)) for names, scores in common.items()]),
        (
            *notes,
            *(note for name, results in runs.items() for note in _left_out(name, results)),
            *(note for names, scores in matched.items() for note in _unmatched(names, scores)),
        ),
    )


def _couples(runs: Collection[str], against: Against) -> Iterable[tuple[str, str]]:
    """Yield the pairs to compare: a baseline and a run."""
    if against is None:
        return combinations(runs, 2)
    if isinstance(against, str):
        return ((against, name) for name in runs if name != against)
    return ((baseline, name) for name, baseline in against.items() if name in runs and baseline in runs)


def _check(runs: Mapping[str, Sequence[Result]], against: Against) -> None:
    if not runs:
        raise UsageError("there are no runs to compare; name some")
    if isinstance(against, str) and against not in runs:
        raise UsageError(choose("run", against, list(runs)))
    for name, results in runs.items():
        if not results:
            raise UsageError(f"run {name!r} contains no discussions; expected at least one")
        (question, seed), times = Counter((result.question, result.seed) for result in results).most_common(1)[0]
        if times > 1:
            raise UsageError(f"run {name!r} contains question {question!r}, seed {seed} twice; expected it once")


def summary(name: str, results: Results) -> Summary:
    """Return a run's accuracy, costs and measures."""
    ended = [result for result in results if not result.failed]
    means = ("tokens_in", "tokens_reused", "tokens_out", "flops", "seconds")
    return Summary(
        run=name,
        questions=len({result.question for result in results}),
        discussions=len(results),
        scored=len(scores := results.scores()),
        accuracy=_share(scores),
        failed_wrong=_share(results.scores("failed_wrong")),
        abstained=sum(result.abstained for result in results),
        failed=len(results) - len(ended),
        measures=mean_measures(results),
        **{each: _mean([getattr(result, each) for result in ended]) for each in means},
    )


def mean_measures(results: Results) -> dict[str, Mean]:
    """Return the mean of each measure that applies to any discussion, with an interval clustered by question."""
    known = {name: values for name, values in results.measures.items() if values}
    return {
        name: mean([*values.values()], [question for question, _ in values], shares=name != MONEY)
        for name, values in known.items()
    }


def _share(scores: Scores) -> Share | None:
    return share([*scores.values()], [question for question, _ in scores]) if scores else None


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


def _unmatched(names: tuple[str, str], matched: Matched) -> Iterable[str]:
    both = f"`{names[0]}` and `{names[1]}`"
    if matched.other_targets:
        yield f"{both}: scored against different targets, and left out of the pair: {_named(matched.other_targets)}."
    if matched.other_questions:
        yield f"{both}: different questions under the same id, not paired: {_named(matched.other_questions)}."
    if not matched.left:
        yield f"{both}: not compared, as they have no scored question in common."
    elif matched.only_means:
        yield f"{both}: no seed in common, so each question's mean over its seeds is compared."


def _named(questions: Iterable[str]) -> str:
    """Return the first few questions by name and the number of further ones; empty if there are none."""
    distinct = list(dict.fromkeys(questions))
    more = f" and {len(distinct) - NAMED} more" if len(distinct) > NAMED else ""
    return one_line(", ".join(distinct[:NAMED])) + more
