"""What can be wrong with a turn of WhoDunit, by the truth, and what class of failure that is (arXiv 2502.05986)."""

from __future__ import annotations

from collections.abc import Collection

BLUNDERS = {
    "known": "it was said already",
    "eliminated": "it is about a character who is ruled out",
    "wrong_award": "the award is wrong",
    "wrong_info": "it is not true",
    "mismatch": "a yes or no, where anything was asked for",
    "out_of_range": "it names characters that there are not",
    "other_role": "it is what the other role says",
}
CLASSES = {
    "wrong_info": "hallucination",
    "out_of_range": "hallucination",
    "known": "collapse",
    "other_role": "role loss",
    "mismatch": "recall failure",
    "eliminated": "recall failure",
    "wrong_award": "recall failure",
}
"""What a turn is classed as by its blunder, of several the first that stands here: a monitor's triggers are too."""
NOTES = {name: f"blunder ({CLASSES[name]}): {what}" for name, what in BLUNDERS.items()}
"""By blunder: what is noted for a reader of a message with it."""


def trigger_class(blunders: Collection[str]) -> str:
    """What is wrong with a turn: "none" where nothing is."""
    return next((CLASSES[each] for each in CLASSES if each in blunders), "none")


def class_noted(notes: Collection[str]) -> str:
    """The class of a turn of which a message's notes tell the blunders."""
    return trigger_class([name for name, note in NOTES.items() if note in notes])
