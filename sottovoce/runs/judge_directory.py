"""The judge directory of a run, and the ids of its questions: which answer each verdict is about."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sottovoce.runs.run import Key

NAME = re.compile(r"-?\d{1,16}:")
"""The beginning of such an id: the seed of the discussion whose answer is judged."""
JUDGED = "judged"
"""The judge directory, in the run's directory; it is a run of its own."""


def name_of(key: Key) -> str:
    """Return the id of the question that asks a judge whether a discussion's answer is right.

    >>> key_of(name_of(("a:b", 3)))
    ('a:b', 3)
    """
    return f"{key[1]}:{key[0]}"


def key_of(name: str) -> Key:
    """Return the discussion that a verdict is about."""
    seed, _, question = name.partition(":")
    return question, int(seed)
