"""Published figures beside obtained ones, with the difference of two independent samples and its power.

A share is treated as right or wrong answers to its questions, each asked once. Repeated discussions of a question add
information, but papers do not print how much, so the interval errs on the wide side. If a paper prints an error, the
number of answers is the one that gives this error. Needs the extra `eval`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import hypot, sqrt
from statistics import NormalDist

from sottovoce.analysis.power import POWER, TwoSamples, two_samples
from sottovoce.analysis.statistics import ALPHA, Mean, mean
from sottovoce.core.text import figure
from sottovoce.experiments.tables.figures import PERCENT, Figure
from sottovoce.experiments.tables.table import INTERVAL, STANDARD_ERROR, Published
from sottovoce.nodes.question import question_id
from sottovoce.prompts import kinds
from sottovoce.runs.run import Run

HALF_WIDTH = NormalDist().inv_cdf(1 - ALPHA / 2)
"""Half the width of a 95 % interval, in standard errors."""
DETECTED = HALF_WIDTH + NormalDist().inv_cdf(POWER)
"""A true difference that shows in 4 of 5 cases, in standard errors."""
DIFFERENCES = (
    "Differences are obtained minus published, with 95 % intervals; by chance alone, one line in twenty differs."
)


@dataclass(frozen=True)
class ComparedFigure:
    """One published figure and ours."""

    row: str
    metric: str
    published: Figure | None
    """None if the paper prints none."""
    obtained: Mean | None
    """In the unit of the published figure; None if nothing was obtained."""
    n: int = 0
    """Number of discussions."""
    why: str = ""
    """Why nothing can be obtained; empty if it can."""
    difference: TwoSamples | None = None
    """Difference from the published figure, in its unit; None if an error is unknown."""

    @property
    def words(self) -> str:
        """Return the difference in words, or the difference that would have been found."""
        if self.obtained is None:
            return self.why or "not run"
        if self.published is None:
            return "not printed"
        if (by := self.difference) is None:
            return "cannot be compared: the paper prints no error"
        interval = f"{figure(by.value)} ({figure(by.low)} to {figure(by.high)})"
        if by.differs:
            return f"differs by {interval}"
        if by.smallest is None:
            return f"no difference shown: {interval}; too few questions to show any"
        return f"no difference shown: {interval}; a true difference of {figure(by.smallest)} would show in 4 of 5 cases"


def compare_figures(table: Published, model: str, part: str, runs: Mapping[str, Run]) -> list[ComparedFigure]:
    """Return the published and the obtained figures of one model and part, row by row in the order of the file.

    Raises:
        UsageError: the extra `eval` is not installed.
    """
    figures = table.figures(model, part)
    # The metrics that are printed for this part; all metrics if nothing is printed.
    metrics = dict.fromkeys(metric for by in figures.values() for metric in by) or table.metrics
    rows = dict.fromkeys([*figures, *table.rows_of(model, part)])
    lines = [
        _compare(table, part, row, metric, figures.get(row, {}).get(metric), runs)
        for row in rows
        for metric in figures.get(row, metrics)
    ]
    return [line for line in lines if line.published or line.obtained]


def _compare(
    table: Published, part: str, row: str, metric: str, printed: Figure | None, runs: Mapping[str, Run]
) -> ComparedFigure:
    if row in table.missing:
        return ComparedFigure(row, metric, printed, None, why=f"cannot be run: {table.missing[row]}")
    meaning, scale = table.metrics[metric], PERCENT if metric in table.percent else 1
    candidates = table.best_of.get(row, [row])
    values = [[*observed(meaning, name, runs)] for name in candidates]
    obtained = [_obtained(row_values, scale) for row_values in values if row_values]
    if not obtained:
        why = f"{meaning!r} is not measured" if any(name in runs for name in candidates) else ""
        return ComparedFigure(row, metric, printed, None, why=why)
    ours, discussions, questions = max(obtained, key=lambda best: best[0].value)
    gain, n = bool(GAIN.fullmatch(meaning)), table.parts[part].get("limit")
    by = None if printed is None else difference(ours, questions, printed, n, table.error, gain=gain, scale=scale)
    return ComparedFigure(row, metric, printed, ours, discussions, difference=by)


def _obtained(values: list[tuple[str, float]], scale: float) -> tuple[Mean, int, int]:
    """Return the mean, the number of discussions and the number of questions."""
    questions = [question for question, _ in values]
    ours = mean([value for _, value in values], questions)
    low, high = (None if end is None else scale * end for end in (ours.low, ours.high))
    return Mean(scale * ours.value, low, high), len(values), len({*questions})


def difference(
    ours: Mean, questions: int, printed: Figure, n: int | None, error: str, *, gain: bool, scale: float
) -> TwoSamples | None:
    """Return the difference from the printed figure, in its unit; None if an error is unknown.

    Args:
        ours: The obtained mean, in the unit of the printed figure.
        questions: The number of questions behind it.
        printed: The figure.
        n: The paper's number of questions.
        error: The kind of error that the paper prints (see `table.Error`).
        gain: The figure is a difference of two shares.
        scale: 100 for percentages.
    """
    own = None
    if printed.spread and error in (STANDARD_ERROR, INTERVAL):  # a spread of 0 is that of identical runs
        own = printed.spread / (HALF_WIDTH if error == INTERVAL else 1)
    if not gain and 0 <= min(ours.value, printed.mean) and max(ours.value, printed.mean) <= scale:
        share = printed.mean / scale
        n = (round(share * (1 - share) / (own / scale) ** 2) if own else 0) or n
        if not n:
            return None
        by = two_samples(ours.value / scale, questions, share, n)
        smallest = None if by.smallest is None else scale * by.smallest
        return TwoSamples(scale * by.value, scale * by.low, scale * by.high, smallest)
    if gain and own is None and n:
        own = scale * sqrt(0.5 / n)
    if own is None or ours.low is None or ours.high is None:
        return None
    both, value = hypot(own, (ours.high - ours.low) / 2 / HALF_WIDTH), ours.value - printed.mean
    return TwoSamples(value, value - HALF_WIDTH * both, value + HALF_WIDTH * both, DETECTED * both)


def assumed(error: str) -> str:
    """Return the assumptions about a paper's figures, in words."""
    if error in (STANDARD_ERROR, INTERVAL):
        return (
            f"{DIFFERENCES} The paper's errors ({error}) are used; a share without one counts its questions, each "
            "asked once."
        )
    prints = "does not say what its spreads are" if error == "not said" else "prints no errors"
    return (
        f"{DIFFERENCES} The paper {prints}: a share counts its questions, each asked once, a gain is the difference of "
        "two such shares near one half, and other figures are not compared."
    )


# Values of a metric

GAIN = re.compile(r"score over (?P<row>\S+)")
IN_ROUND = re.compile(r"(?P<agent>\S+) in round (?P<round>[1-9]\d*)")
SCORE, AGREEMENT, COMPARABLE, WRITTEN = "score", "agreement", "comparable_score", "tokens_out"
Values = Iterator[tuple[str, float]]
"""The question and the value of each discussion that the metric applies to."""


def observed(metric: str, row: str, runs: Mapping[str, Run]) -> Values:
    """Yield a row's values of "score", "tokens_out", a measure, or such as "agent_1 in round 2" and "score over none".

    Scores are those of verdicts: a failure that the scheme or protocol can cause counts as wrong.
    """
    if (run := runs.get(row)) is None:
        return
    if match := IN_ROUND.fullmatch(metric):
        yield from _in_round(run, match["agent"], int(match["round"]))
        return
    gain = GAIN.fullmatch(metric)
    # By question and seed, so that both rows played the same game.
    before = runs[gain["row"]].results().scores(COMPARABLE) if gain and gain["row"] in runs else {}
    results = run.results()
    column = COMPARABLE if gain or metric == SCORE else metric
    values = results.scores(column) if column in (COMPARABLE, WRITTEN) else results.measures.get(metric, {})
    for key, value in values.items():
        if not gain or key in before:
            yield key[0], float(value) - before.get(key, 0)


def _in_round(run: Run, agent: str, number: int) -> Values:
    for record in run.records.values():
        if record.decision is None or record.question.get("target") is None:
            continue
        if number > len(rounds := record.answered_as()):
            continue
        question = question_id(record.question)
        answers = {name: vote["answer"] for name, (_, vote) in rounds[number - 1].items()}
        if agent == AGREEMENT and len(answers) > 1:
            first, *others = answers.values()
            kind = record.question["kind"]
            yield question, float(first is not None and all(kinds.same(first, answer, kind) for answer in others))
        elif agent in answers:
            yield question, float(kinds.right(answers[agent], record.question))
