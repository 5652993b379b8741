"""Runs on questions of known difficulty: what intervals and tests are held against."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sottovoce.analysis.statistics import ALPHA, paired_test, share

ALIKE = 0.3  # correlation of two answers to one question of a pair of runs
Sizes = Literal["one", "few"]
Rights = NDArray[np.float64]
"""How often each question is answered rightly."""


def difficulties(rng: np.random.Generator, right: float, questions: int, alike: float) -> Rights:
    """A beta distribution of mean `right`, so that two answers to one question correlate by `alike`."""
    return rng.beta(right * (1 / alike - 1), (1 - right) * (1 / alike - 1), questions)


def sizes_of(questions: int, seeds: int | Sizes) -> list[int]:
    """How many answers each question has."""
    if seeds == "one":
        return [5 * questions, *[1] * (questions - 1)]
    if seeds == "few":
        return [20] * (questions // 10) + [1] * (questions - questions // 10)
    return [seeds] * questions


def answers(rng: np.random.Generator, rights: Rights, seeds: int | Sizes) -> Rights:
    """Right (1) or wrong (0), the seeds of a question one after another."""
    each = np.repeat(rights, sizes_of(len(rights), seeds))
    return (rng.random(len(each)) < each).astype(np.float64)


def questions_of(questions: int, seeds: int | Sizes) -> list[int]:
    """The question of each answer."""
    return [question for question, n in enumerate(sizes_of(questions, seeds)) for _ in range(n)]


def covered(times: int, right: float, questions: int, seeds: int | Sizes, alike: float) -> float:
    """How often the interval of a share holds the true one."""
    rng, of = np.random.default_rng(11), questions_of(questions, seeds)
    hits = 0
    for _ in range(times):
        found = share(answers(rng, difficulties(rng, right, questions, alike), seeds).tolist(), of)
        hits += found.low <= right <= found.high
    return hits / times


def two_runs(times: int, right: float, questions: int, seeds: int, gain: float) -> Iterator[tuple[Rights, Rights]]:
    """The answers of two runs to the same questions; the second turns a share of what would be wrong into right."""
    rng = np.random.default_rng(12)
    for _ in range(times):
        rights = difficulties(rng, right, questions, ALIKE)
        yield answers(rng, rights, seeds), answers(rng, rights + (1 - rights) * gain / (1 - right), seeds)


def judged(times: int, right: float, questions: int, seeds: int, gain: float = 0.0) -> tuple[float, float]:
    """How often the test finds a difference, and how often the interval holds the true one."""
    of, counts = questions_of(questions, seeds), np.zeros(2)
    for before, after in two_runs(times, right, questions, seeds, gain):
        found = paired_test((after - before).tolist(), of, resamples=999)  # enough to tell p below 5 %
        counts += found.p <= ALPHA, found.low <= gain <= found.high
    found, held = counts / times
    return found, held
