"""How much can be asked for: numbers beyond these are mistakes, and are refused before anything is made of them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

MOST_AGENTS = 100
"""Each is a node of the graph, and hears all others: ten thousand edges, a quarter of a second."""
MOST_ROUNDS = 1_000
"""Papers have at most twelve, and every round is read again in the next."""
MOST_SAMPLES = 1_000
"""Each is a node too."""
MOST_TOKENS = 1_000_000
"""No model here reads more; a reply that does not fit a model's own context is refused later."""
MOST_STEPS = 100_000
"""Of what is made or kept for each: passages, steps, months, trials, questions made from a seed."""
MOST = 2**53 - 1
"""Of what is only counted: JSON, and so Studio's form, keeps whole numbers to here."""

Agents = Annotated[int, Field(le=MOST_AGENTS)]
Rounds = Annotated[int, Field(le=MOST_ROUNDS)]
Samples = Annotated[int, Field(le=MOST_SAMPLES)]
Tokens = Annotated[int, Field(le=MOST_TOKENS)]
Few = Annotated[int, Field(le=MOST_STEPS)]
Count = Annotated[int, Field(le=MOST)]
LONGEST_WAIT = 1e9
"""Seconds, thirty years: the system's own clocks and locks take little more."""
LONGEST_PROGRAM = 86_400
"""Seconds that a program of a model may run: a day."""
Seed = Annotated[int, Field(ge=-MOST, le=MOST)]
