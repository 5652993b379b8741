"""The two statistics of the model card: an interval for a share, and a paired test."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, sqrt


def wilson(right: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's interval for right/n; z = 1.96 makes it one of 95 %."""
    share, spread = right / n, z * z / n
    centre = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * sqrt(share * (1 - share) / n + spread / (4 * n))
    return max(0.0, centre - half), min(1.0, centre + half)


def mcnemar(left: Sequence[bool], right: Sequence[bool]) -> float:
    """The exact two-sided p of McNemar's test: are the pairs that differ split evenly?"""
    gained = sum(b and not a for a, b in zip(left, right, strict=True))
    lost = sum(a and not b for a, b in zip(left, right, strict=True))
    differ = gained + lost
    tail = sum(comb(differ, k) for k in range(min(gained, lost) + 1)) / (1 << differ)
    return min(1.0, 2 * tail)
