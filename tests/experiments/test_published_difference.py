"""A published figure beside ours, as two samples: intervals, power, and the words for them."""

from __future__ import annotations

import numpy as np
import pytest

from sottovoce.analysis.statistics import Mean, newcombe
from sottovoce.experiments.published import Gap, difference
from sottovoce.experiments.schema import Figure


def printed(runs: tuple[float, ...], spread: float | None = None) -> Figure:
    return Figure(runs=[*runs], spread=spread)


def test_the_smallest_difference_shows_in_four_of_five_pairs_that_are_drawn() -> None:
    n, share = 300, 0.9178
    gap = difference(Mean(share, None, None), n, printed((share,)), n, "none", gain=False, shares=True, scale=1)
    assert gap is not None and gap.smallest is not None
    rng = np.random.default_rng(1)
    ours, theirs = rng.binomial(n, share - gap.smallest, 400) / n, rng.binomial(n, share, 400) / n
    limits = [newcombe(float(a), n, float(b), n) for a, b in zip(ours, theirs, strict=True)]
    assert 0.7 < np.mean([low > 0 or high < 0 for low, high in limits]) < 0.9


def test_more_seeds_of_the_same_questions_are_not_more_questions() -> None:
    ours = Mean(60.0, 55.0, 65.0)
    found = difference(ours, 100, printed((61.0,)), 100, "none", gain=False, shares=True, scale=100)
    assert found is not None and found.low < -14 < 12 < found.high  # 100 questions, however often they were asked


def test_a_printed_error_determines_the_number_of_answers() -> None:
    ours = Mean(59.8, 58.0, 61.6)
    of_runs = difference(ours, 180, printed((59.8,), 1.8), 180, "standard error", gain=False, shares=True, scale=100)
    interval = difference(ours, 180, printed((59.8,), 3.6), 180, "95 % interval", gain=False, shares=True, scale=100)
    without = difference(ours, 180, printed((59.8,), 1.8), 180, "not said", gain=False, shares=True, scale=100)
    assert of_runs is not None and interval is not None and without is not None
    assert of_runs.high == pytest.approx(interval.high, abs=0.2) and of_runs.high < without.high - 1


def test_figures_that_are_no_shares_need_an_error() -> None:
    turns = Mean(40.0, 38.0, 42.0)
    assert difference(turns, 180, printed((23.9,)), 180, "none", gain=False, shares=False, scale=1) is None
    found = difference(turns, 180, printed((23.9,), 0.5), 180, "standard error", gain=False, shares=False, scale=1)
    assert found is not None and found.low > 0 and found.value == pytest.approx(16.1)
    assert found.high - found.low == pytest.approx(2 * np.hypot(2.0, 1.96 * 0.5), rel=1e-3)


def test_a_gain_without_an_error_is_as_sure_as_two_shares_near_one_half() -> None:
    found = difference(Mean(2.0, -1.0, 5.0), 180, printed((10.7,)), 180, "none", gain=True, shares=False, scale=100)
    assert found is not None and found.low < 0 < found.high
    assert found.high - found.low == pytest.approx(2 * np.hypot(3.0, 196 * (0.5 / 180) ** 0.5), rel=1e-3)
    few = difference(Mean(0.0, None, None), 2, printed((10.7,)), 180, "none", gain=True, shares=False, scale=100)
    assert few is None


@pytest.mark.parametrize(
    ("gap", "words"),
    [
        (Gap(-12.0, -20.0, -4.0, 11.0), "differs by -12 (-20 to -4)"),
        (Gap(2.0, -6.5, 10.5, 12.3), "no difference shown: 2 (-6.5 to 10.5); one of 12.3 would show in 4 of 5 cases"),
        (Gap(0.0, -60.0, 60.0, None), "no difference shown: 0 (-60 to 60); too few questions to show any"),
    ],
)
def test_a_difference_is_described_in_words(gap: Gap, words: str) -> None:
    assert gap.words == words
