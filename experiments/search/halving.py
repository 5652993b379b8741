"""Successive halving: many candidates get few questions, the better half gets more, until one candidate is left.

Jamieson and Talwalkar (2016), "Non-stochastic best arm identification and hyperparameter optimization" (1502.07943),
algorithm 1: each rung may spend the same share of the budget. All candidates of a rung get the same questions, new
ones in each rung, and their earlier scores still count.

Nothing here imports torch or langgraph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, log2
from statistics import fmean

from sottovoce.core.errors import UsageError

SAVING = 10
"""The exhaustive search takes at least this many times the discussions."""
Scores = dict[int, list[float]]
"""The scores of each candidate so far, in the order of questions."""
Ask = Callable[[int, int, range], list[float]]
"""Maps rung number, candidate and question positions to the candidate's scores."""


@dataclass(frozen=True)
class Rung:
    """A stage of the search: the number of candidates and their questions."""

    candidates: int
    questions: range
    """0-based positions among all questions."""

    @property
    def discussions(self) -> int:
        """The number of discussions that the rung takes."""
        return self.candidates * len(self.questions)


def exhaustive(candidates: int, questions: int) -> list[Rung]:
    """Return a single rung in which every candidate gets every question."""
    return [Rung(candidates, range(questions))]


def halving(candidates: int, questions: int) -> list[Rung]:
    """Return rungs that take at most a tenth of the exhaustive search's discussions.

    The remainder from rounding goes to the last two candidates, as far as there are questions.

    Raises:
        UsageError: there are fewer than two candidates, or too few questions for one each in the first rung.
    """
    if candidates < 2:
        raise UsageError(f"there is {candidates} layer to choose from; expected at least 2")
    steps = ceil(log2(candidates))
    budget = candidates * questions // SAVING
    if budget // steps < candidates:
        raise UsageError(
            f"{questions} questions are too few to halve {candidates} layers with a tenth of the discussions; "
            f"give at least {SAVING * steps}, or search without --halving"
        )
    rungs, start, left = list[Rung](), 0, budget
    for step in range(steps):
        size = ceil(candidates / 2**step)
        share = left // size if step == steps - 1 else budget // steps // size
        n = min(share, questions - start)
        rungs.append(Rung(size, range(start, start + n)))
        start, left = start + n, left - size * n
    return rungs


def search(plan: Sequence[Rung], order: Sequence[int], ask: Ask) -> tuple[list[int], Scores]:
    """Return the candidates from best to worst, and their scores; those that survived longer come first.

    Args:
        plan: The rungs.
        order: All candidates; of equally good ones the earlier survives.
        ask: Asks a candidate some questions and returns its scores.
    """
    scores: Scores = {candidate: [] for candidate in order}
    alive, out = list(order), list[int]()
    for number, rung in enumerate(plan):
        alive, lost = alive[: rung.candidates], alive[rung.candidates :]
        out = [*lost, *out]
        for candidate in sorted(alive):
            scores[candidate] += ask(number, candidate, rung.questions)
        alive = sorted(alive, key=lambda candidate: -fmean(scores[candidate]))  # stable: ties keep their order
    return [*alive, *out], scores
