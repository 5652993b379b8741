"""The smallest difference that is named is one that the test which is used does show, in four of five cases."""

import numpy as np
import pytest
from scipy import stats

from sottovoce.analysis.power import (
    mcnemar_power,
    smallest_of_clusters,
    smallest_of_pairs,
)
from sottovoce.analysis.statistics import paired_bootstrap


def simulated(n: int, differing: float, difference: float, alpha: float, times: int = 4000) -> float:
    """How often scipy's exact test of the pairs that differ finds a difference, on its side."""
    rng, found = np.random.default_rng(2), 0
    known: dict[tuple[int, int], bool] = {}
    for gained, lost, _ in rng.multinomial(
        n, [(differing + difference) / 2, (differing - difference) / 2, 1 - differing], times
    ):
        key = (int(gained), int(lost))
        if key not in known:
            known[key] = gained > lost and stats.binomtest(key[0], sum(key)).pvalue <= alpha
        found += known[key]
    return found / times


@pytest.mark.parametrize(
    ("n", "differing", "difference", "alpha"),
    [(100, 0.064, 0.064, 0.05), (100, 0.3, 0.15, 0.05), (40, 0.4, 0.3, 0.05 / 6), (500, 0.2, 0.05, 0.05)],
)
def test_the_power_of_mcnemars_test_is_that_of_a_simulation(
    n: int, differing: float, difference: float, alpha: float
) -> None:
    assert mcnemar_power(n, differing, difference, alpha) == pytest.approx(
        simulated(n, differing, difference, alpha), abs=0.025
    )


def test_of_100_questions_6_points_show_in_62_percent_and_are_not_named() -> None:
    assert mcnemar_power(100, 0.05, 0.064) == pytest.approx(0.62, abs=0.005)
    smallest = smallest_of_pairs(100, 0.05)
    assert smallest is not None and 0.07 < smallest < 0.08
    assert mcnemar_power(100, 0.05, smallest) >= 0.8


@pytest.mark.parametrize("differing", [0.0, 0.2, 1.0])
def test_five_questions_show_no_difference_and_six_only_one_of_all(differing: float) -> None:
    assert smallest_of_pairs(5, differing) is None
    assert (smallest_of_pairs(6, differing) or 0) > 0.9


def test_a_family_needs_larger_differences() -> None:
    alone, family = (smallest_of_pairs(100, 0.2, 0.05 / n) for n in (1, 10))
    assert alone is not None and family is not None and family > 1.2 * alone


def test_clusters_are_simulated_with_the_bootstrap_that_tests_them() -> None:
    rng = np.random.default_rng(0)
    differences, questions = rng.choice([-1.0, 0, 0, 0, 1], 300).tolist(), [i // 5 for i in range(300)]
    smallest = smallest_of_clusters(differences, questions)
    assert smallest is not None

    found = [
        paired_bootstrap((rng.choice([-1, 0, 0, 0, 1], 300) + smallest).tolist(), questions, resamples=300).p <= 0.05
        for _ in range(200)
    ]
    assert np.mean(found) == pytest.approx(0.8, abs=0.12)  # simulated twice: 3 standard errors
    assert smallest_of_clusters(differences, questions) == smallest
    assert smallest_of_clusters(differences[:20], questions[:20]) is None  # four questions
