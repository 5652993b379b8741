"""How the papers' own programs scored, their misreadings included; each written from a description of its behaviour.

For the audit alone: what was published was counted so. A scorer takes the texts of the last round, the right answer
as the data set's file has it, and the question's choices. Numbers of rows are those of the list of contradictions
between papers and their code.
"""

from collections.abc import Callable, Sequence

Texts = Sequence[str]
Scorer = Callable[[Texts, str, Sequence[str]], float]
"""In [0, 1]."""
