"""A paper's printed figures next to ours, with the difference of two independent samples and its power.

A share is treated as right or wrong answers to its questions, each asked once. Repeated discussions of a question add
information, but papers do not print how much, so the interval errs on the wide side. If a paper prints an error, the
number of answers is the one that gives this error. Needs the extra `eval`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import hypot, sqrt

from sottovoce.analysis import discussion_metrics
from sottovoce.analysis.scorers import ROUGE, rouge_scores
from sottovoce.analysis.statistics import DETECTED, HALF_WIDTH, Mean, mean, newcombe
from sottovoce.core.text import figure
from sottovoce.experiments.schema import Error, Experiment, Figure, Published
from sottovoce.runs.run import Run

SPREADS = ("standard error", "95 % interval")
"""The kinds of printed errors that say how uncertain a figure is."""


@dataclass(frozen=True)
class Gap:
    """The difference between ours and the paper's figure, in the figure's unit, with its 95 % interval."""

    value: float
    low: float
    high: float
    smallest: float | None
    """A true difference that would show in four of five cases; None if not even the largest would."""

    @property
    def words(self) -> str:
        """Return the difference in words, or the smallest difference that would have been detected."""
        interval = f"{figure(self.value)} ({figure(self.low)} to {figure(self.high)})"
        if self.low > 0 or self.high < 0:
            return f"differs by {interval}"
        if self.smallest is None:
            return f"no difference shown: {interval}; too few questions to show any"
        return f"no difference shown: {interval}; one of {figure(self.smallest)} would show in 4 of 5 cases"


@dataclass(frozen=True)
class Compared:
    """One published figure and ours."""

    row: str
    point: str
    metric: str
    published: Figure | None
    """None if the paper prints none."""
    ours: Mean | None
    """In the unit of the published figure, with the number of discussions; None if there is none."""
    words: str
    """The difference, or why there is none."""


def compare_figures(experiment: Experiment, runs: Mapping[str, Run]) -> list[Compared]:
    """Return the published figures and ours of all points with a run, row by row; [] if nothing is published."""
    if (table := experiment.published) is None:
        return []
    lines = []
    for point in experiment.points:
        names = {row.name: name for name, row in experiment.rows.items() if row.point == point}
        figures, here = table.figures.get(point, {}), {row: runs[name] for row, name in names.items() if name in runs}
        # The metrics that are printed at this point; all metrics if nothing is.
        metrics = dict.fromkeys(metric for by in figures.values() for metric in by) or table.metrics
        limits = [source.printed or source.limit for source in experiment.points[point].questions]
        n = sum(limit for limit in limits if limit) if all(limits) else None
        for row in dict.fromkeys([*figures, *names]) if here else ():
            by = figures.get(row, {})
            lines += [_compare(table, (row, point, metric), by.get(metric), here, n) for metric in by or metrics]
    return [line for line in lines if line.published or line.ours]


def _compare(
    table: Published, names: tuple[str, str, str], printed: Figure | None, runs: Mapping[str, Run], n: int | None
) -> Compared:
    row, _, metric = names
    if row in table.missing:
        return Compared(*names, printed, None, f"cannot be run: {table.missing[row]}")
    meaning, scale = table.metrics[metric], 100 if metric in table.percent else 1
    candidates = table.best_of.get(row, [row])
    values = [
        [(clusters[question], value) for question, value in listed]
        for name in candidates
        if (listed := [*observed(meaning, name, runs)]) and (clusters := runs[name].clusters())
    ]
    if not values:
        measured = any(name in runs for name in candidates)
        return Compared(*names, printed, None, f"{meaning!r} is not measured" if measured else "not run")
    is_share = meaning in ("score", ROUGE) or IN_ROUND.fullmatch(meaning) is not None
    shares = is_share or any(meaning in runs[name].results().shares for name in candidates if name in runs)
    ours, questions = max(
        ((_scaled(listed, scale, shares), len(dict(listed))) for listed in values), key=lambda best: best[0].value
    )
    if printed is None:
        return Compared(*names, None, ours, "not printed")
    gain = bool(GAIN.fullmatch(meaning))
    gap = difference(ours, questions, printed, n, table.error, gain=gain, shares=shares, scale=scale)
    return Compared(*names, printed, ours, gap.words if gap else "cannot be compared: the paper prints no error")


def _scaled(values: list[tuple[str, float]], scale: float, shares: bool) -> Mean:
    ours = mean([value for _, value in values], [question for question, _ in values], shares=shares)
    low, high = (None if end is None else scale * end for end in (ours.low, ours.high))
    return Mean(scale * ours.value, low, high, len(values))


def difference(
    ours: Mean, questions: int, printed: Figure, n: int | None, error: Error, *, gain: bool, shares: bool, scale: float
) -> Gap | None:
    """Return the difference from the printed figure, in its unit; None if an error is unknown.

    Args:
        ours: The obtained mean, in the unit of the printed figure.
        questions: The number of questions behind it.
        printed: The figure.
        n: The paper's number of questions.
        error: The kind of error that the paper prints.
        gain: The figure is a difference of two shares.
        shares: The figure is a share, or a mean of grades in [0, 1].
        scale: 100 for percentages.
    """
    own, value = None, ours.value - printed.mean
    if printed.spread and error in SPREADS:  # a spread of 0 is that of identical runs
        own = printed.spread / (HALF_WIDTH if error == "95 % interval" else 1)
    if shares:
        share = printed.mean / scale
        n = (round(share * (1 - share) / (own / scale) ** 2) if own else 0) or n
        if not n:
            return None
        low, high = (scale * end for end in newcombe(ours.value / scale, questions, share, n))
        smallest = DETECTED * (high - low) / 2 / HALF_WIDTH
        return Gap(value, low, high, smallest if smallest <= scale * max(share, 1 - share) else None)
    if gain and own is None and n:
        own = scale * sqrt(0.5 / n)
    if own is None or ours.low is None or ours.high is None:
        return None
    both = hypot(own, (ours.high - ours.low) / 2 / HALF_WIDTH)
    return Gap(value, value - HALF_WIDTH * both, value + HALF_WIDTH * both, DETECTED * both)


def assumed(error: Error) -> str:
    """Return the assumptions about a paper's figures, in words."""
    begin = "Differences are ours minus published, with 95 % intervals; by chance alone, one line in twenty differs. "
    if error in SPREADS:
        counts = "are used; a share without one counts its questions, each asked once."
        return f"{begin}The paper's errors ({error}) {counts}"
    prints = "does not say what its spreads are" if error == "not said" else "prints no errors"
    return (
        f"{begin}The paper {prints}: a share counts its questions, each asked once, a gain is the difference of two "
        "such shares near one half, and other figures are not compared."
    )


# Values of a metric

GAIN = re.compile(r"score over (?P<row>\S+)")
IN_ROUND = re.compile(r"(?P<agent>\S+) in round (?P<round>[1-9]\d*)")
COMPARABLE, WRITTEN = "comparable_score", "tokens_out"


def observed(metric: str, row: str, runs: Mapping[str, Run]) -> Iterator[tuple[str, float]]:
    """Yield the question and the value of each discussion of a row that the metric applies to.

    A metric is "score", "tokens_out", "ROUGE-L recall", a measure, or a phrase such as "agent_1 in round 2" or "score
    over none". Scores are counted as for verdicts: a failure that the scheme or protocol can cause counts as wrong.
    """
    if (run := runs.get(row)) is None:
        return
    if match := IN_ROUND.fullmatch(metric):
        wanted = ("agreement", None) if match["agent"] == "agreement" else ("accuracy", match["agent"])
        for each in discussion_metrics.observed(run.records.values()):
            if each.round == int(match["round"]) - 1 and (each.measure, each.agent) == wanted:
                yield each.question, float(each.happened)
        return
    if metric == ROUGE:
        yield from rouge_scores(run)
        return
    gain = GAIN.fullmatch(metric)
    # By question and seed, so that both rows played the same game.
    before = runs[gain["row"]].results().scores(COMPARABLE) if gain and gain["row"] in runs else {}
    results = run.results()
    column = COMPARABLE if gain or metric == "score" else metric
    values = results.scores(column) if column in (COMPARABLE, WRITTEN) else results.measures.get(metric, {})
    for key, value in values.items():
        if not gain or key in before:
            yield key[0], float(value) - before.get(key, 0)
