"""How sure an agent should be: as often as the model is right on such problems."""

from __future__ import annotations

from collections.abc import Sequence

from sottovoce.training.forms import UNKNOWN, Posed

STEP = 0.05
AGREES, DIFFERS = 0.6, 1.5
"""What another agent's equal or different answer makes of the chance of an error: copies of one model err together."""
BANDS = (99, 300, 500)
ACCURACY = ((0.98, 0.94), (0.92, 0.89), (0.88, 0.78), (0.74, 0.52))
"""Share of right greedy answers, measured after the stage `discussion` (4000 problems): by the largest number of
the question (up to 99, 300, 500, more), and whether a result below zero comes up."""


def confidence(problem: Posed, known: Sequence[str], others: Sequence[str | None] = ()) -> str:
    """The stated confidence, 0 to 1 in steps of 0.05; 0.1 where the answer is unknown.

    `others` are the answers of the other agents, as they write them; None tells nothing.
    """
    answer = problem.stated(known)
    if answer.lower() == UNKNOWN:
        return "0.1"
    error = 1 - alone(problem)
    for other in others:
        if other is not None:
            error *= AGREES if other.lower() == answer.lower() else DIFFERS
    return f"{round((1 - min(error, 0.6)) / STEP) * STEP:.4g}"


def alone(problem: Posed) -> float:
    """How often the model is right on such a problem by itself."""
    largest = max(problem.expression.operands)
    below = any(result < 0 for *_, result in problem.expression.steps())
    return ACCURACY[sum(largest > top for top in BANDS)][below]
