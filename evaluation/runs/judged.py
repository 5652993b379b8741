"""Where the verdicts on a run's answers lie, and which answer each is on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sottovoce.evaluation.runs.run import Key

NAME = re.compile(r"-?\d{1,16}:")
"""How the id of such a question begins: the seed of the discussion whose answer is judged."""
JUDGED = "judged"
"""The folder within the run's: a run of its own."""


def name_of(key: Key) -> str:
    """The id of the question whether a discussion's answer is right.

    >>> key_of(name_of(("a:b", 3)))
    ('a:b', 3)
    """
    return f"{key[1]}:{key[0]}"


def key_of(name: str) -> Key:
    """The discussion that a verdict is on."""
    seed, _, question = name.partition(":")
    return question, int(seed)
