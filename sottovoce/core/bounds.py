"""Upper limits of settings: larger numbers are mistakes, and are refused before anything is built from them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

MOST_AGENTS = 100
"""Each agent is a node of the graph and hears all others: ten thousand edges, a quarter of a second."""
MOST_ROUNDS = 1_000
"""Papers use at most twelve, and agents read every round again in the next."""
MOST_SAMPLES = 1_000
"""Each sample is a node too."""
MOST_TOKENS = 1_000_000
"""No model here has a longer context; a reply that exceeds a model's own context is refused later."""
MOST_STEPS = 100_000
"""Limit on items that each take time or memory: passages, steps, months, trials, questions made from a seed."""
MOST = 2**53 - 1
"""Limit on plain counts: JSON, and so Studio's form, is exact for integers up to this one."""

Agents = Annotated[int, Field(le=MOST_AGENTS)]
Rounds = Annotated[int, Field(le=MOST_ROUNDS)]
Samples = Annotated[int, Field(le=MOST_SAMPLES)]
Tokens = Annotated[int, Field(le=MOST_TOKENS)]
Few = Annotated[int, Field(le=MOST_STEPS)]
Count = Annotated[int, Field(le=MOST)]
LONGEST_WAIT = 1e9
"""Seconds, about thirty years: the system's clocks and locks accept little more."""
LONGEST_PROGRAM = 86_400
"""Seconds that a program written by a model may run: a day."""
Seed = Annotated[int, Field(ge=-MOST, le=MOST)]
