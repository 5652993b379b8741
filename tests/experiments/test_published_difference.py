"""A published figure beside ours, as two samples: intervals, power, and the words for them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from sottovoce.analysis.power import TwoSamples, two_samples
from sottovoce.analysis.statistics import Mean
from sottovoce.experiments.tables.comparison import ComparedFigure, assumed, difference
from sottovoce.experiments.tables.figures import Figure


@pytest.mark.parametrize(
    ("right", "n", "other", "other_n"), [(30, 50, 120, 200), (0, 20, 20, 20), (285, 300, 270, 300)]
)
def test_the_interval_is_newcombes(right: int, n: int, other: int, other_n: int) -> None:
    proportion: Any = import_module("statsmodels.stats.proportion")  # not typed
    low, high = proportion.confint_proportions_2indep(right, n, other, other_n, method="newcomb", compare="diff")

    found = two_samples(right / n, n, other / other_n, other_n)
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.differs == (not low <= 0 <= high)


@pytest.mark.parametrize(
    ("n", "other", "other_n"), [(200, 0.6, 200), (300, 0.9178, 300), (20, 1.0, 20), (126, 0.45, 126)]
)
def test_the_smallest_difference_shows_in_four_of_five_pairs_that_are_drawn(n: int, other: float, other_n: int) -> None:
    smallest = two_samples(other, n, other, other_n).smallest

    assert smallest is not None
    rng, sign = np.random.default_rng(1), 1 if other <= 0.5 else -1
    ours, theirs = rng.binomial(n, other + sign * smallest, 1000) / n, rng.binomial(other_n, other, 1000) / other_n
    shown = [two_samples(float(a), n, float(b), other_n).differs for a, b in zip(ours, theirs, strict=True)]
    assert 0.76 < np.mean(shown) < 0.84


def test_too_few_questions_show_no_difference() -> None:
    assert two_samples(0.5, 2, 0.5, 300).smallest is None


def test_more_seeds_of_the_same_questions_are_not_more_questions() -> None:
    ours = Mean(60.0, 55.0, 65.0)

    found = difference(ours, 100, Figure((61.0,)), 100, "none", gain=False, scale=100)
    assert found is not None and found.low < -14 < 12 < found.high  # 100 questions, however often they were asked


def test_a_printed_error_determines_the_number_of_answers() -> None:
    ours = Mean(59.8, 58.0, 61.6)

    of_runs = difference(ours, 180, Figure((59.8,), 1.8), 180, "standard error", gain=False, scale=100)
    interval = difference(ours, 180, Figure((59.8,), 3.6), 180, "95 % interval", gain=False, scale=100)
    without = difference(ours, 180, Figure((59.8,), 1.8), 180, "not said", gain=False, scale=100)

    assert of_runs is not None and interval is not None and without is not None
    assert of_runs.high == pytest.approx(interval.high, abs=0.2) and of_runs.high < without.high - 1


def test_figures_that_are_no_shares_need_an_error() -> None:
    turns = Mean(40.0, 38.0, 42.0)

    assert difference(turns, 180, Figure((23.9,)), 180, "none", gain=False, scale=1) is None
    found = difference(turns, 180, Figure((23.9,), 0.5), 180, "standard error", gain=False, scale=1)
    assert found is not None and found.differs and found.value == pytest.approx(16.1)
    assert found.high - found.low == pytest.approx(2 * np.hypot(2.0, 1.96 * 0.5), rel=1e-3)


def test_a_gain_without_an_error_is_as_sure_as_two_shares_near_one_half() -> None:
    found = difference(Mean(2.0, -1.0, 5.0), 180, Figure((10.7,)), 180, "none", gain=True, scale=100)

    assert found is not None and not found.differs
    assert found.high - found.low == pytest.approx(2 * np.hypot(3.0, 196 * (0.5 / 180) ** 0.5), rel=1e-3)
    assert difference(Mean(0.0, None, None), 2, Figure((10.7,)), 180, "none", gain=True, scale=100) is None


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "cannot be compared: the paper prints no error"),
        (TwoSamples(-12.0, -20.0, -4.0, 11.0), "differs by -12 (-20 to -4)"),
        (
            TwoSamples(2.0, -6.5, 10.5, 12.3),
            "no difference shown: 2 (-6.5 to 10.5); a true difference of 12.3 would show in 4 of 5 cases",
        ),
        (TwoSamples(0.0, -60.0, 60.0, None), "no difference shown: 0 (-60 to 60); too few questions to show any"),
    ],
)  # fmt: skip
def test_a_difference_is_described_in_words(found: TwoSamples | None, said: str) -> None:
    line = ComparedFigure("two", "accuracy", Figure((30.0,)), Mean(40.0, 20.0, 60.0), 10, difference=found)

    assert line.words == said


@pytest.mark.parametrize("error", ["none", "not said", "standard error", "95 % interval"])
def test_assumptions_about_figures_are_stated(error: str) -> None:
    told = {"none": "prints no errors", "not said": "does not say what its spreads are"}

    assert "one line in twenty" in assumed(error) and told.get(error, error) in assumed(error)
