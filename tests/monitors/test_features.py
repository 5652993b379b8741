"""Statistics of distributions: the paper's figures, their limits, and what is refused."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
from scipy.stats import kurtosis as scipy_kurtosis

from sottovoce.core.errors import UsageError
from sottovoce.monitors.features import FLOOR, combined, independent, joint, logged, statistics

P = np.array([0.7, 0.2, 0.05, 0.05])


def test_the_vector_of_the_specification_has_its_figures() -> None:
    found = statistics(np.log(P))

    assert found["entropy"] == pytest.approx(0.871133, abs=5e-7)
    assert found["varentropy"] == pytest.approx(0.745678, abs=5e-7)
    assert found["kurtosis"] == pytest.approx(3.859479, abs=5e-7)
    excess = float(scipy_kurtosis(np.log(P), fisher=True, bias=True))  # as in the paper's code
    assert found["kurtosis_logprob_excess"] == pytest.approx(excess, abs=1e-12)


def test_flat_and_certain_distributions_have_no_spread() -> None:
    flat, certain = statistics([log(1 / 4)] * 4), statistics([0.0, -np.inf, -np.inf])

    assert flat["entropy"] == pytest.approx(log(4), abs=1e-12)
    assert flat["varentropy"] == pytest.approx(0, abs=1e-12)
    assert (flat["kurtosis"], flat["kurtosis_logprob_excess"]) == (0, 0)
    assert list(certain.values()) == [0, 0, 0, 0]


def test_what_has_no_mass_adds_nothing() -> None:
    assert statistics([*np.log(P), -np.inf]) == statistics(np.log(P))
    assert statistics([0.0, -9999.0])["entropy"] == 0  # as some providers write it


def test_the_most_probable_are_taken_as_they_are_unless_they_are_renormalised() -> None:
    top = np.log(P[:2])

    assert statistics(top)["entropy"] == pytest.approx(-(0.7 * log(0.7) + 0.2 * log(0.2)), abs=1e-12)
    assert statistics(top, renormalise=True) == pytest.approx(statistics(np.log(P[:2] / 0.9)), abs=1e-12)


def test_the_joint_of_two_lists_has_all_sums() -> None:
    a, b = np.log([0.6, 0.3]), np.log([0.5, 0.2])

    assert np.exp(joint([a, b])) == pytest.approx([0.3, 0.12, 0.15, 0.06])
    assert joint([a]).tolist() == a.tolist()


def test_of_whole_distributions_the_joint_follows_from_the_statistics_of_each() -> None:
    rng = np.random.default_rng(0)
    a, b = (np.log(rng.dirichlet(np.ones(n))) for n in (7, 5))

    found = independent(statistics(a), statistics(b))

    whole = statistics(joint([a, b]))
    assert found == pytest.approx({name: whole[name] for name in found}, rel=1e-10)
    assert independent(statistics([0.0]), statistics([0.0]))["kurtosis"] == 0


def test_each_statistic_is_taken_from_the_position_where_it_is_highest() -> None:
    found = [{"entropy": 1.0, "kurtosis": 2.0}, {"entropy": 0.5, "kurtosis": 3.0}]

    assert combined(found) == {"entropy": 1.0, "kurtosis": 3.0}
    assert combined(found, min) == {"entropy": 0.5, "kurtosis": 2.0}


def test_logarithms_are_floored_and_kurtosis_stays() -> None:
    found = logged({"entropy": 0.0, "varentropy": 2.0, "kurtosis": 5.0})

    assert found == {"entropy": pytest.approx(log(FLOOR)), "varentropy": pytest.approx(log(2)), "kurtosis": 5.0}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], r"found log-probabilities of shape \(0,\); expected a list with a finite value"),
        ([-np.inf], r"shape \(1,\); expected a list with a finite value"),
        ([[0.0]], r"shape \(1, 1\)"),
        ([0.7, 0.3], "0.7 is not a log-probability; expected ln p, at most 0, for each token"),
        ([float("nan")], "nan is not a log-probability"),
    ],
)
def test_what_is_no_list_of_log_probabilities_is_refused(given: list[float], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        statistics(given)


def test_they_are_the_engine_s_own() -> None:
    import torch

    from sottovoce.models.engine import sampling

    logits = torch.randn(3, 50, generator=torch.Generator().manual_seed(0))
    numbers, _, _ = sampling.statistics(*sampling.moments(logits, torch.zeros(3, dtype=torch.long), 0))

    for row, (_, *engine) in zip(logits.log_softmax(-1).tolist(), numbers.tolist(), strict=True):
        ours = list(statistics(row).values())[:3]
        assert ours == pytest.approx(engine, rel=1e-4)  # the engine's are float32
