import pytest

from sottovoce.training.measure import mcnemar, wilson


def test_wilsons_interval_is_the_textbooks() -> None:
    assert wilson(8, 10) == pytest.approx((0.4902, 0.9433), abs=5e-4)
    assert wilson(0, 500)[0] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(("gained", "lost", "p"), [(0, 0, 1.0), (5, 5, 1.0), (6, 0, 0.03125), (1, 9, 0.021484375)])
def test_mcnemar_is_the_exact_binomial_test_of_the_pairs_that_differ(gained: int, lost: int, p: float) -> None:
    before = [False] * gained + [True] * lost + [True, False]
    after = [True] * gained + [False] * lost + [True, False]
    assert mcnemar(before, after) == pytest.approx(p)
