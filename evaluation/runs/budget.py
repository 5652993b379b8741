"""What a run may cost where another's cost is to be matched: a number of samples follows from it.

Nothing here imports torch or langgraph.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

Currency = Literal["flops", "tokens"]
UNITS: dict[Currency, str] = {"flops": "FLOPs", "tokens": "tokens"}


class Budget(BaseModel):
    """Of a run of self-consistency: means of a discussion, in FLOPs or tokens."""

    row: str
    """The run whose cost is matched."""
    by: Currency
    target: float
    """What a discussion of that run took."""
    first: float
    """What a question's first sample took in the pilot."""
    further: float
    """What each further one took: it may reuse what the first one read."""
    questions: int
    """Of the pilot."""

    @property
    def samples(self) -> int:
        """As many as come nearest to the target, at least one."""
        return max(1, round(1 + (self.target - self.first) / self.further))

    def told(self, amount: float) -> str:
        """An amount with its unit."""
        return f"{amount:.3g} {UNITS[self.by]}" if self.by == "flops" else f"{amount:,.0f} {UNITS[self.by]}"
