"""Successive halving: many candidates are asked few questions, the better half of them more, until one is left.

Jamieson and Talwalkar (2016), "Non-stochastic best arm identification and hyperparameter optimization" (1502.07943),
algorithm 1: each rung may spend the same share of the budget. All candidates of a rung are asked the same questions,
new ones in each, and what they scored before counts on.

Nothing here imports torch or langgraph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, log2
from statistics import fmean

from sottovoce.errors import UsageError

TENTH = 10
"""The exhaustive search takes at least so many times the discussions."""
Scores = dict[int, list[float]]
"""What each candidate scored so far, question by question in their order."""
Ask = Callable[[int, int, range], list[float]]
"""The rung, a candidate, and which questions: its scores for them."""


@dataclass(frozen=True)
class Rung:
    """How many candidates are asked which questions."""

    candidates: int
    questions: range
    """Their places among all, from 0."""

    @property
    def discussions(self) -> int:
        """What it spends."""
        return self.candidates * len(self.questions)


def exhaustive(candidates: int, questions: int) -> list[Rung]:
    """Every candidate is asked every question."""
    return [Rung(candidates, range(questions))]


def halving(candidates: int, questions: int) -> list[Rung]:
    """Rungs that spend a tenth of the exhaustive search's discussions at most.

    What rounding leaves is spent on the last two, as far as there are questions.

    Raises:
        UsageError: fewer than two candidates, or too few questions for one each in the first rung.
    """
    if candidates < 2:
        raise UsageError(f"there is {candidates} layer to choose from; expected at least 2")
    steps = ceil(log2(candidates))
    budget = candidates * questions // TENTH
    if budget // steps < candidates:
        raise UsageError(
            f"{questions} questions are too few to halve {candidates} layers with a tenth of the discussions; "
            f"give at least {TENTH * steps}, or search without --halving"
        )
    rungs, asked, left = list[Rung](), 0, budget
    for step in range(steps):
        size = ceil(candidates / 2**step)
        share = left // size if step == steps - 1 else budget // steps // size
        n = min(share, questions - asked)
        rungs.append(Rung(size, range(asked, asked + n)))
        asked, left = asked + n, left - size * n
    return rungs


def search(plan: Sequence[Rung], order: Sequence[int], ask: Ask) -> tuple[list[int], Scores]:
    """Candidates from the best to the worst, and what each scored; who came further stands before.

    Args:
        plan: The rungs.
        order: All candidates; of equally good ones the earlier goes on.
        ask: Asks a candidate some questions.
    """
    scores: Scores = {each: [] for each in order}
    alive, out = list(order), list[int]()
    for number, rung in enumerate(plan):
        alive, lost = alive[: rung.candidates], alive[rung.candidates :]
        out = [*lost, *out]
        for each in sorted(alive):
            scores[each] += ask(number, each, rung.questions)
        alive = sorted(alive, key=lambda each: -fmean(scores[each]))  # stable: ties keep their order
    return [*alive, *out], scores
