import itertools
import subprocess
import sys
from math import comb

import numpy as np
import pytest
from scipy import stats

from sottovoce.analysis.statistics import (
    Difference,
    holm,
    mcnemar,
    mean,
    paired_bootstrap,
    share,
)
from tests.analysis.simulated import Sizes, answers, clusters, covered, difficulties, judged

slow = pytest.mark.slow
SETTINGS = [(right, questions) for right in (0.3, 0.7, 0.95) for questions in (50, 200)]
UNEQUAL: list[Sizes] = ["one", "few"]
"""One question with five times as many discussions as there are questions, or each tenth with twenty."""
SEEDS = [(1, 0.5), (5, 0.2), (5, 0.5), (5, 0.8)]
"""Seeds a question, and how much two answers to it are alike."""


def limits(right: int, n: int) -> tuple[float, float]:
    found = share([1.0] * right + [0.0] * (n - right))
    return found.low, found.high


def wilson(right: float, n: float) -> tuple[float, float]:
    """Wilson's interval (1927), as the textbooks write it."""
    z2 = stats.norm.ppf(0.975) ** 2
    centre, half = right + z2 / (2 * n), (z2 / n * right * (1 - right) + z2**2 / (4 * n**2)) ** 0.5
    return (centre - half) / (1 + z2 / n), (centre + half) / (1 + z2 / n)


# Means


def test_a_mean_has_students_interval() -> None:
    values = [10.0, 12.0, 14.0, 17.0]
    found = mean(values)
    low, high = stats.t.interval(0.95, 3, loc=13.25, scale=stats.sem(values))
    assert (found.value, found.low, found.high) == pytest.approx((13.25, low, high))


def test_counts_are_no_shares_though_all_are_0_or_1() -> None:
    assert mean([1, 1, 1]).low is None and share([1, 1, 1]).low < 0.5


@pytest.mark.parametrize(("values", "clusters"), [([31.0, 31.0, 31.0], None), ([3.1] * 7, None), ([5.0, 9.0], [*"aa"])])
def test_where_clusters_are_alike_or_one_there_is_no_interval(values: list[float], clusters: list[str] | None) -> None:
    found = mean(values, clusters)
    assert found.value == pytest.approx(sum(values) / len(values)) and found.low is None is found.high


# Shares


def test_wilsons_interval_is_the_textbooks() -> None:
    assert limits(8, 10) == pytest.approx((0.4902, 0.9433), abs=5e-5)
    assert share([0.0] * 74).low == 0 and share([1.0] * 74).high == 1  # not 3e-18, as a table once showed


@pytest.mark.parametrize(("right", "questions"), SETTINGS[:1])
def test_wilsons_interval_covers_as_the_binomial_distribution_says(right: float, questions: int) -> None:
    held = [low <= right <= high for low, high in (limits(k, questions) for k in range(questions + 1))]
    chances = [comb(questions, k) * right**k * (1 - right) ** (questions - k) for k in range(questions + 1)]
    assert 0.93 <= sum(itertools.compress(chances, held)) <= 0.97


@pytest.mark.parametrize("right", [0, 7])
def test_seeds_that_always_agree_tell_no_more_than_one(right: int) -> None:
    alone = [1.0] * right + [0.0] * (20 - right)
    assert share(alone * 5, [*range(20)] * 5) == share(alone)


def test_the_effective_size_is_the_one_by_hand() -> None:
    """Ten questions with 1 of 5 right, ten with 4: the variance is 20 / 19 * 45 / 100², n = 0.25 / that / (t / z)²."""
    scores = [1.0, 0, 0, 0, 0] * 10 + [1.0, 1, 1, 1, 0] * 10
    found = share(scores, [i // 5 for i in range(100)])
    assert (found.value, found.low, found.high) == pytest.approx((0.5, 0.3616, 0.6384), abs=1e-4)


def test_a_question_with_many_seeds_weighs_as_much_as_its_discussions() -> None:
    """Sizes 3, 1, 2: the mean is 4 / 6, and worth at least 6² / 14 observations, more than the variance gives."""
    found = share([1, 1, 1, 0, 1, 0], ["a", "a", "a", "b", "c", "c"])
    assert (found.low, found.high) == pytest.approx(wilson(4 / 6, 36 / 14))


def test_scores_that_vary_little_have_a_narrower_interval_than_right_and_wrong() -> None:
    halves = share([0.4, 0.6] * 50)
    half = stats.t.ppf(0.975, 99) * 0.1 / 99**0.5  # the t interval, which Wilson's nears
    assert (halves.high - halves.low) / 2 == pytest.approx(half, rel=1e-3)


@pytest.mark.parametrize(
    ("times", "low", "high", "right", "questions", "seeds", "alike"),
    [
        *((200, 0.91, 0.99, *case) for case in ((0.3, 50, 1, 0.5), (0.7, 50, 5, 0.5), (0.95, 200, 5, 0.8))),
        *(pytest.param(2000, 0.93, 0.97, *of, *seeds, marks=slow) for of in SETTINGS for seeds in SEEDS),
    ],
)
def test_the_interval_of_a_share_covers_in_95_percent(
    times: int, low: float, high: float, right: float, questions: int, seeds: int, alike: float
) -> None:
    assert low <= covered(times, right, questions, seeds, alike) <= high  # 200 times: 3 standard errors are 0.045


# Tests


@pytest.mark.parametrize(("gained", "lost", "p"), [(0, 0, 1.0), (5, 5, 1.0), (6, 0, 0.03125), (1, 9, 0.021484375)])
def test_mcnemar_is_the_exact_binomial_test_of_the_pairs_that_differ(gained: int, lost: int, p: float) -> None:
    before = [False] * gained + [True] * lost + [True, False]
    after = [True] * gained + [False] * lost + [True, False]
    assert mcnemar(before, after) == pytest.approx(p)


def every_resample(values: list[float]) -> list[tuple[float, float]]:
    """The mean and its standard error in each of the n^n resamples that there are."""
    drawn = np.array(list(itertools.product(values, repeat=len(values))))
    return list(zip(drawn.mean(axis=1), drawn.std(axis=1, ddof=1) / len(values) ** 0.5, strict=True))


def test_the_bootstrap_is_that_of_all_resamples() -> None:
    values = [0.5, 0.25, -0.1, 0.3, 0.05, 0.4]
    mean, error = float(np.mean(values)), float(np.std(values, ddof=1)) / 6**0.5
    strays = [abs(each - mean) / spread if spread > 1e-9 else np.inf for each, spread in every_resample(values)]
    found = paired_bootstrap(values, resamples=40_000)
    assert (found.value, found.error) == pytest.approx((mean, error))
    assert found.p == pytest.approx(np.mean([stray >= mean / error for stray in strays]), abs=0.005)
    assert found.high == pytest.approx(mean + np.quantile(strays, 0.95) * error, abs=0.01)


def test_seeds_that_always_differ_alike_tell_no_more_than_one() -> None:
    values = [1.0, 0.0, 0.0, -1.0, 1.0, 1.0, 0.0] * 6
    alone, clustered = paired_bootstrap(values), paired_bootstrap(values * 5, [*range(42)] * 5)
    assert clustered.clusters == 42
    assert (clustered.low, clustered.high, clustered.p) == pytest.approx((alone.low, alone.high, alone.p))


def test_the_interval_leaves_nothing_out_just_when_p_is_below_5_percent() -> None:
    rng = np.random.default_rng(7)
    for _ in range(10):
        found = paired_bootstrap(rng.normal(0.1, 0.3, 40).tolist(), resamples=999)
        assert (found.p <= 0.05) == (found.low > 0 or found.high < 0)


def test_runs_without_a_difference_might_still_have_differed_on_few_questions() -> None:
    unseen = limits(0, 50)[1]
    assert paired_bootstrap([0.0] * 50) == Difference(0, -unseen, unseen, 1.0, 0.0, 50)


def test_few_questions_that_differ_bound_the_interval() -> None:
    found = paired_bootstrap([1.0] + [0.0] * 199)
    assert (found.low, found.high) == pytest.approx((-limits(0, 200)[1], limits(1, 200)[1]))


def test_the_interval_holds_the_difference_where_one_question_has_most_discussions() -> None:
    found = paired_bootstrap([-1.0] * 100 + [1.0] * 10, ["a"] * 100 + [*range(10)])
    assert found.low <= found.value <= found.high


def test_holm_multiplies_the_least_p_most_and_keeps_their_order() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5]) == [0.5]
    assert holm([]) == []


@pytest.mark.parametrize(
    ("times", "right", "questions", "alike"),
    [(100, 0.3, 20, 0.8)]
    + [
        pytest.param(1000, right, questions, alike, marks=slow)
        for right, questions in ((0.3, 10), (0.7, 20), (0.7, 50), (0.95, 200))
        for alike in (0.2, 0.5, 0.8)
    ],
)
@pytest.mark.parametrize("sizes", UNEQUAL)
def test_the_interval_of_a_share_covers_where_questions_have_different_numbers_of_discussions(
    times: int, right: float, questions: int, alike: float, sizes: Sizes
) -> None:
    assert covered(times, right, questions, sizes, alike) >= 0.85


@pytest.mark.parametrize("sizes", UNEQUAL)
def test_a_difference_is_seldom_found_where_there_is_none_and_sizes_differ(sizes: Sizes) -> None:
    rng, found = np.random.default_rng(13), 0
    for _ in range(100):
        rights = difficulties(rng, 0.7, 40, 0.3)
        before, after = (answers(rng, np.clip(rights + 0.2 * rng.choice([-1, 1], 40), 0, 1), sizes) for _ in range(2))
        found += paired_bootstrap((after - before).tolist(), clusters(40, sizes), resamples=400).p <= 0.05
    assert found <= 12  # before: 46 of 100 with one large question


@pytest.mark.parametrize(
    ("times", "most", "least", "right", "questions", "seeds"),
    [
        (100, 0.12, 0.88, 0.7, 50, 1),  # 100 times: 3 standard errors are 0.065
        (100, 0.12, 0.88, 0.3, 50, 5),
        *(pytest.param(2000, 0.06, 0.93, *of, seeds, marks=slow) for of in SETTINGS for seeds in (1, 5)),
    ],
)
def test_tests_of_runs_that_do_not_differ_seldom_find_a_difference(
    times: int, most: float, least: float, right: float, questions: int, seeds: int
) -> None:
    bootstrap, exact, held = judged(times, right, questions, seeds)
    assert max(bootstrap, exact) <= most and held >= least
    # Where few questions differ, the interval is wider than need be.
    assert times == 100 or (right, questions) == (0.95, 50) or held <= 0.97


@pytest.mark.slow
@pytest.mark.parametrize("questions", [50, 200])
@pytest.mark.parametrize("seeds", [1, 5])
def test_the_interval_of_a_difference_covers_in_95_percent(questions: int, seeds: int) -> None:
    bootstrap, _, held = judged(2000, 0.7, questions, seeds, gain=0.1)
    assert 0.93 <= held <= 0.97
    assert bootstrap > 0.15


# What is refused


@pytest.mark.parametrize("of_none", [share, paired_bootstrap])
def test_no_observations_have_no_figure(of_none: object) -> None:
    with pytest.raises(ValueError, match="no observations"):
        of_none([])  # type: ignore[operator]


def test_the_libraries_are_met_late_and_one_line_says_what_to_install() -> None:
    code = (
        "import sys; from sottovoce.analysis import statistics; from sottovoce.core.errors import UsageError\n"
        "assert 'scipy' not in sys.modules; sys.modules['statsmodels.stats.proportion'] = None\n"
        "try: statistics.share([1])\n"
        "except UsageError as error: print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, encoding="utf-8").stdout
    assert said == "statistics need the extra 'eval': pip install 'sottovoce[eval]'\n"
