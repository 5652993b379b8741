"""EM and F1 of short answers as defined by SQuAD (and used by ReAct and SDE).

Each is the best value over target and aliases. For an abstention both are 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sottovoce.nodes.state import Decision
from sottovoce.prompts.kinds import normalise

CLOSED = ("yes", "no", "noanswer")
"""Answers whose overlap with any other answer is 0."""


def exact_match(answer: str | None, golds: Sequence[str]) -> float:
    """Return 1 if the answer is one of the right ones after SQuAD's normalization, else 0.

    >>> exact_match("The Orla.", ["river Orla", "orla"])
    1.0
    """
    return float(answer is not None and normalise(answer) in map(normalise, golds))


def f1(answer: str | None, golds: Sequence[str]) -> float:
    """Return the harmonic mean of precision and recall over words, the best over the right answers.

    >>> f1("the river Orla", ["Orla"])
    0.6666666666666666
    """
    return 0.0 if answer is None else max((_overlap(normalise(answer), normalise(gold)) for gold in golds), default=0.0)


def _overlap(answer: str, gold: str) -> float:
    if answer != gold and (answer in CLOSED or gold in CLOSED):
        return 0.0
    said, wanted = answer.split(), gold.split()
    common = (Counter(said) & Counter(wanted)).total()
    return 2 * common / (len(said) + len(wanted)) if common else 0.0


def golds_of(question: Mapping[str, Any]) -> list[str]:  # Any: of a Question
    """Return the right answers of a question: its target and its aliases."""
    target = question.get("target")
    return [] if target is None else [target, *question.get("aliases", [])]


def measures(question: Mapping[str, Any], decision: Decision) -> dict[str, float]:  # Any: of a Question
    """Return EM and F1 of a decision on a `text` question with a target; {} for any other."""
    golds = golds_of(question)
    if question.get("kind") != "text" or not golds:
        return {}
    answers = _averaged_answers(decision) or [decision["answer"]]
    means = {name: [score(answer, golds) for answer in answers] for name, score in (("EM", exact_match), ("F1", f1))}
    return {name: sum(scores) / len(scores) for name, scores in means.items()}


def _averaged_answers(decision: Decision) -> list[str | None]:
    """Return the answers whose scores the decision rule averages; [] if it decides on a single one.

    `box` leaves out replies without an answer in its format, `average` counts abstentions as wrong; the fixed replies
    of experts and dummies count under neither.
    """
    rule = decision["rule"]
    if rule not in ("average", "box"):
        return []
    abstains = rule == "average"
    return [vote["answer"] for vote in decision["votes"] if vote["counts"] or (abstains and vote["answer"] is None)]
