"""Metrics of games of WhoDunit, and the classes of blunders (arXiv 2502.05986, section 6).

The means of the metrics over games are the paper's success, precision and length. Blunders are judged by the truth.
Hallucination: a published claim is false. Collapse: an agent asks or shares something again. Role loss: an agent acts
in the other role. Recall failure: an agent ignores what was published. A wrong award to a character that nothing
published ruled out has no class.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

BLUNDERS = {
    "known": "it was said already",
    "eliminated": "it is about a character whom published claims rule out",
    "wrong_award": "the award is wrong",
    "wrong_info": "it is not true",
    "left_out": "its list leaves out a character who has that value",
    "mismatch": "a yes or no, where anything was asked for",
    "out_of_range": "it names characters that there are not",
    "other_role": "it is what the other role says",
}
CLASSES = {
    "wrong_info": "hallucination",
    "left_out": "hallucination",
    "out_of_range": "hallucination",
    "known": "collapse",
    "other_role": "role loss",
    "mismatch": "recall failure",
    "eliminated": "recall failure",
}
"""The class of a turn, or of a monitor's trigger, by its blunder; with several blunders, the first in this order."""
NOTES = {
    name: f"blunder ({CLASSES[name]}): {what}" if name in CLASSES else f"blunder: {what}"
    for name, what in BLUNDERS.items()
}
"""For each blunder, the note for people on a message."""


def trigger_class(blunders: Collection[str]) -> str:
    """Return the class of a turn's blunders; "none" if no blunder has a class."""
    return next((CLASSES[name] for name in CLASSES if name in blunders), "none")


def class_noted(notes: Collection[str]) -> str:
    """Return the class of a turn from the blunders in its message's notes."""
    return trigger_class([name for name, note in NOTES.items() if note in notes])


class Ended(NamedTuple):
    """The end of one game."""

    right: bool
    awarded: bool
    turns: int
    """Number of all turns, including those before a reset; a turn that a reset replaced counts as one."""
    cancelled: bool = False
    resets: int = 0


def measures(game: Ended) -> dict[str, int | float | None]:
    """Return the metrics by name; a cancelled game is a failure.

    Success is 1 for a right award, else 0. Precision is None for a game without an award, so that its mean is over the
    games with one.
    """
    return {
        "success": float(game.right),
        "precision": float(game.right) if game.awarded else None,
        "turns": game.turns,
        "cancelled": float(game.cancelled),
        "resets": game.resets,
    }
