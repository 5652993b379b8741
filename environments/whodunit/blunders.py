"""The blunders of a turn of WhoDunit, judged by the truth, and their classes of failure (arXiv 2502.05986, section 6).

Hallucination: a published claim is false. Collapse: an agent asks or shares something again. Role loss: an agent acts
in the other role. Recall failure: an agent ignores what was published. A wrong award to a character that nothing
published ruled out has no class.
"""

from __future__ import annotations

from collections.abc import Collection

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
    return next((CLASSES[each] for each in CLASSES if each in blunders), "none")


def class_noted(notes: Collection[str]) -> str:
    """Return the class of a turn from the blunders in its message's notes."""
    return trigger_class([name for name, note in NOTES.items() if note in notes])
