import itertools
import subprocess
import sys
from math import comb

import numpy as np
import pytest
from scipy import stats

from sottovoce.analysis.statistics import Difference, detectable, holm, mean, paired_test, share
from tests.analysis.simulated import Sizes, answers, covered, difficulties, judged, questions_of

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
    found = mean(values, shares=False)
    low, high = stats.t.interval(0.95, 3, loc=13.25, scale=stats.sem(values))
    assert (found.value, found.low, found.high) == pytest.approx((13.25, low, high))


def test_a_mean_has_the_interval_of_what_its_values_are_declared_to_be() -> None:
    """It was guessed from the values: sums of EM and F1, up to 2, had Wilson's interval where all were small."""
    ones = [1.0, 1.0, 0.0, 1.0]
    assert mean(ones, shares=True).low == share(ones).low and mean([1, 1, 1], shares=False).low is None
    assert mean(ones, shares=False).high == pytest.approx(stats.t.interval(0.95, 3, 0.75, stats.sem(ones))[1])


@pytest.mark.parametrize(("values", "clusters"), [([31.0, 31.0, 31.0], None), ([3.1] * 7, None), ([5.0, 9.0], [*"aa"])])
def test_where_clusters_are_alike_or_one_there_is_no_interval(values: list[float], clusters: list[str] | None) -> None:
    found = mean(values, clusters, shares=False)
    assert found.value == pytest.approx(sum(values) / len(values)) and found.low is None is found.high


# Shares


def test_wilsons_interval_is_the_textbooks() -> None:
    assert limits(8, 10) == pytest.approx((0.4902, 0.9433), abs=5e-5)
    assert share([0.0] * 74).low == 0 and share([1.0] * 74).high == 1  # not 3e-18, as a table once showed


def test_wilsons_interval_covers_as_the_binomial_distribution_says() -> None:
    right, questions = SETTINGS[0]
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


def test_where_few_questions_differ_their_variance_is_uncertain() -> None:
    """Of 20, 16 have 3 of 5 right, 2 none, 2 all: t has 8.84 degrees of freedom and not 19, and n is 67 and not 79."""
    scores = [1.0, 1, 1, 0, 0] * 16 + [0.0] * 10 + [1.0] * 10
    found = share(scores, [i // 5 for i in range(100)])
    assert (found.low, found.high) == pytest.approx(wilson(0.58, 66.998), abs=1e-4)


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
def test_the_test_of_right_and_wrong_answers_is_mcnemars(gained: int, lost: int, p: float) -> None:
    assert paired_test([1.0] * gained + [-1.0] * lost + [0.0, 0.0]).p == pytest.approx(p)


def test_the_test_of_graded_answers_is_that_of_all_signs() -> None:
    values = [0.5, 0.25, -0.1, 0.3, 0.05, 0.4, -0.2]
    means = [abs(np.mean(np.multiply(signs, values))) for signs in itertools.product((1, -1), repeat=7)]
    assert paired_test([*values, 0.0]).p == pytest.approx(np.mean(np.array(means) >= np.mean(values) - 1e-12))
    many = paired_test(values * 6)
    assert many == paired_test(values * 6) and many.p < 0.001


@pytest.mark.parametrize(
    ("differences", "low", "high"),
    [
        ([-1.0] * 49 + [0.0], -1.0, -0.85),  # both seeds of 49 of 50 lost: p was 0.37
        ([-1.0] * 99 + [0.0], -1.0, -0.92),  # at one seed the interval began at 0
        ([-0.5] * 39 + [0.0], -0.53, -0.40),
    ],
)
def test_a_difference_of_nearly_all_questions_is_found(differences: list[float], low: float, high: float) -> None:
    found = paired_test(differences)
    assert found.p < 1e-9 and (found.low, found.high) == pytest.approx((low, high), abs=0.01)


def test_the_interval_of_right_and_wrong_answers_is_bonetts_and_prices() -> None:
    """Theirs adds 1 to both numbers of differing pairs; its quantile is Student's here, and its variance unbiased."""
    gained, lost, n = 30, 10, 202
    found = paired_test([1.0] * gained + [-1.0] * lost + [0.0] * (n - 2 - gained - lost))
    up, down = (gained + 1) / n, (lost + 1) / n
    half = stats.t.ppf(0.975, n - 1) * ((up + down - (up - down) ** 2) / (n - 1)) ** 0.5
    assert (found.low, found.high) == pytest.approx((up - down - half, up - down + half))


def test_seeds_that_always_differ_alike_tell_no_more_than_one() -> None:
    values = [1.0, 0.0, 0.0, -1.0, 1.0, 1.0, 0.0] * 6
    assert paired_test(values * 5, [*range(42)] * 5) == paired_test(values)


@pytest.mark.parametrize("values", [[1.0], [0.0], [0.5, 0.5]])
def test_one_or_two_questions_show_nothing(values: list[float]) -> None:
    found = paired_test(values)
    assert found.p >= 0.5 and found.low <= 0 <= found.high and found.low <= found.value <= found.high


def test_the_interval_leaves_nothing_out_just_when_p_is_at_most_5_percent() -> None:
    rng = np.random.default_rng(7)
    for _ in range(5):
        found = paired_test(rng.normal(0.1, 0.3, 15).tolist())
        assert (found.p <= 0.05) == (found.low > 0 or found.high < 0)


def test_where_all_agree_a_difference_must_change_enough_questions_to_show() -> None:
    """d = 2.80 * (d / 10) ** 0.5, the standard error if only the questions changed that make up d."""
    assert detectable(Difference(0.0, 0.0, 0.0, 1.0, 0.0, 10)) == pytest.approx(2.8016**2 / 10, rel=1e-3)


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


# Right answers of the first run, questions, seeds of each, and the gain of the second run; the last ones differ little.
PAIRS = [
    *((0.3, 20, seeds, 0.1) for seeds in (1, 2, 5, 10)),
    *((0.7, 50, seeds, gain) for seeds in (1, 2, 3, 5, 10) for gain in (0.0, 0.1, 0.285)),
    *((right, 200, seeds, gain) for right, gain in ((0.3, 0.665), (0.7, 0.0), (0.95, 0.03)) for seeds in (1, 2, 5)),
    *((0.95, 50, seeds, 0.03) for seeds in (1, 2, 5, 10)),
]


@pytest.mark.parametrize(
    ("times", "right", "questions", "seeds", "gain"),
    [
        (200, 0.7, 50, 1, 0.0),
        (40, 0.3, 20, 5, 0.1),
        *(pytest.param(1000, *case, marks=slow) for case in PAIRS),
    ],
)
def test_intervals_of_differences_cover_and_tests_seldom_find_what_is_not_there(
    times: int, right: float, questions: int, seeds: int, gain: float
) -> None:
    found, held = judged(times, right, questions, seeds, gain)
    assert held >= (0.935 if times == 1000 else 0.91)  # 3 standard errors of 1000 are 0.02
    assert gain or found <= (0.057 if times == 1000 else 0.10)
    assert held <= 0.98 or times < 1000 or questions < 50 or right == 0.95  # wider where few questions can differ


def test_a_difference_is_seldom_found_where_there_is_none_and_one_question_has_most_discussions() -> None:
    rng, found = np.random.default_rng(13), 0
    for _ in range(40):
        rights = difficulties(rng, 0.7, 40, 0.3)
        before, after = (answers(rng, np.clip(rights + 0.2 * rng.choice([-1, 1], 40), 0, 1), "one") for _ in range(2))
        found += paired_test((after - before).tolist(), questions_of(40, "one"), resamples=400).p <= 0.05
    assert found <= 5  # before: 46 of 100


# What is refused


@pytest.mark.parametrize("of_none", [share, paired_test])
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
