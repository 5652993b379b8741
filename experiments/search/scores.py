"""The score of a discussion in a search: whether its decision is right, and for free text the overlap of words.

Nothing here imports torch.
"""

from __future__ import annotations

from dataclasses import dataclass

from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.squad import measures


@dataclass(frozen=True)
class Mark:
    """The score of a discussion."""

    exact: float
    """EM for free text, else the decision's score, in [0, 1]."""
    overlap: float | None = None
    """F1 of the words of a free text, in [0, 1]; None for other kinds of answer."""

    @property
    def worth(self) -> float:
        """EM + F1 for free text (SDE, appendix: layers are ranked by their sum), else the score."""
        return self.exact + (self.overlap or 0.0)


def mark(record: DiscussionRecord) -> Mark:
    """Score a discussion that ended with a decision; its question must have a target."""
    decision, question = record.decision, record.question
    assert decision is not None and decision["score"] is not None, (
        "failures and questions without a target were refused"
    )
    words = measures(question, decision)
    return Mark(words["EM"], words["F1"]) if words else Mark(decision["score"])
