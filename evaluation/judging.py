"""A model judges whether answers mean the right one (MADRA, section 4): true or false, with the reference before it.

What the judge said of a run is a run of its own, of the scheme `single`, in `RUN/judged`: it goes on where it was
stopped, its head has the judge's model and the digest of all that it was asked, and its reply is kept to yes or no.
An abstention is false without being shown to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from sottovoce.channels.message import words
from sottovoce.errors import UsageError
from sottovoce.evaluation.runs.judged import name_of
from sottovoce.evaluation.runs.reading import verdicts
from sottovoce.evaluation.runs.record import Record
from sottovoce.evaluation.runs.run import Key, Run
from sottovoce.evaluation.squad import golds_of
from sottovoce.evaluation.statistics import Share, share
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import Single
from sottovoce.prompts.render import Prompts

LONGEST = 16
"""Tokens of a verdict."""
Verdicts = Mapping[Key, bool]


def judge_settings(model: str) -> Single:
    """How the judge is asked: greedily, and for nothing but yes or no."""
    return Single(model=[model], temperature=[0], chain_of_thought=False, guide="on", max_tokens=LONGEST)


def asked_of(run: Run) -> list[Question]:
    """What a judge is asked about a run: every answer to a question whose right answer is known.

    Raises:
        UsageError: there is none.
    """
    prompts, found = Prompts(), []
    for key, record in run.records.items():
        if (answer := _answer(record)) is not None:
            question: Mapping[str, Any] = record.question  # Any: one that lacks a field is read as if it had none
            slots = {"choices": question.get("choices") or [], "references": golds_of(question), "answer": answer}
            text = words(prompts.render("judge/verdict", question=question["question"], **slots))
            found.append(Question(question=text, kind="yes_no", id=name_of(key)))
    if not found:
        raise UsageError("the run has no answer to judge; expected discussions that ended, of questions with a target")
    return found


def _answer(record: Record) -> str | None:
    if record.decision is None or not golds_of(record.question):
        return None
    return record.decision["answer"]


def raters(run: Run, judged: Run, labels: Verdicts) -> dict[str, Verdicts]:
    """Who says of each answer whether it is right: our score, EM where it is measured, the judge, people."""
    results = {(each.question, each.seed): each for each in run.results() if each.answer is not None}
    found: dict[str, Verdicts] = {
        "ours": {key: each.score == 1 for key, each in results.items() if each.score is not None},
        "EM": {key: each.measures["EM"] == 1 for key, each in results.items() if "EM" in each.measures},
        "judge": {key: said == 1 for key, said in verdicts(judged).items()},
        "labels": labels,
    }
    return {name: said for name, said in found.items() if said}


@dataclass(frozen=True)
class Agreement:
    """Of two raters, over the answers that both judged."""

    left: str
    right: str
    n: int
    same: Share
    kappa: float | None
    """Cohen's: 1 agreement, 0 as much as chance makes; None where both always say the same."""


def agreements(raters: Mapping[str, Verdicts]) -> list[Agreement]:
    """Of all pairs who judged any answer in common."""
    return [found for pair in combinations(raters, 2) if (found := _agreement(*pair, raters)) is not None]


def _agreement(left: str, right: str, raters: Mapping[str, Verdicts]) -> Agreement | None:
    common = [key for key in raters[left] if key in raters[right]]
    if not common:
        return None
    pairs = [(raters[left][key], raters[right][key]) for key in common]
    same = share([float(one == other) for one, other in pairs], [question for question, _ in common])
    return Agreement(left, right, len(pairs), same, kappa(pairs))


def kappa(pairs: Iterable[tuple[bool, bool]]) -> float | None:
    """Cohen's kappa (1960): (p - e) / (1 - e) of the share of agreement p and that by chance e; None where e is 1.

    >>> kappa([(True, True), (True, False), (False, False), (False, False)])
    0.5
    """
    told = [*pairs]
    n, left, right = len(told), sum(one for one, _ in told), sum(other for _, other in told)
    chance = (left * right + (n - left) * (n - right)) / n**2
    return None if chance == 1 else (sum(one == other for one, other in told) / n - chance) / (1 - chance)
