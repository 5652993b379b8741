"""Scorers that behave like the papers' own programs, misreadings included; written from descriptions of behavior.

Only the audit uses them, since published figures were counted this way. A scorer takes the texts of the last round,
the right answer as in the data set's file, and the question's choices.
"""

from collections.abc import Callable, Sequence

Texts = Sequence[str]
Scorer = Callable[[Texts, str, Sequence[str]], float]
"""Returns a score in [0, 1]."""
