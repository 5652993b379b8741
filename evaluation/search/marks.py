"""What a discussion is worth to a search: whether its decision is right, and for free text how much of it.

Nothing here imports torch.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from dataclasses import dataclass
from statistics import fmean

from sottovoce.evaluation.runs.record import Record

ALONE = ("box", "average")
"""Rules by which each agent's answer counts by itself: so does its F1."""
ARTICLES = re.compile(r"\b(?:a|an|the)\b")


@dataclass(frozen=True)
class Mark:
    """How right a discussion is."""

    exact: float
    """The decision's score, in [0, 1]."""
    overlap: float | None = None
    """F1 of the words of a free text, in [0, 1]; None for other kinds of answer."""

    @property
    def worth(self) -> float:
        """EM + F1 for free text (SDE, appendix: layers are ranked by both), else the score."""
        return self.exact + (self.overlap or 0.0)


def mark(record: Record) -> Mark:
    """What a discussion that ended is worth; its question has a target."""
    decision, question = record.decision, record.question
    assert decision is not None and decision["score"] is not None, (
        "failures and questions without a target were refused"
    )
    if question.get("kind") != "text" or "target" not in question:
        return Mark(decision["score"])
    counting = [vote["answer"] for vote in decision["votes"] if vote["counts"]] if decision["rule"] in ALONE else []
    answers = counting or [decision["answer"]]
    return Mark(decision["score"], fmean(f1(answer or "", question["target"]) for answer in answers))


def f1(answer: str, target: str) -> float:
    """The harmonic mean of precision and recall of words, as SQuAD's scorer has it (Rajpurkar et al. 2016)."""
    said, wanted = _words(answer), _words(target)
    common = (Counter(said) & Counter(wanted)).total()
    return 2 * common / (len(said) + len(wanted)) if common else float(said == wanted)


def _words(text: str) -> list[str]:
    bare = text.lower().translate(str.maketrans("", "", string.punctuation))
    return ARTICLES.sub(" ", bare).split()
