"""Figures as Markdown."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Table:
    """A table that grows row by row; the first row is its head."""

    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, *cells: object) -> None:
        """Another row; what it lacks at its end stays empty."""
        self.rows.append(tuple(map(str, cells)))

    def __str__(self) -> str:
        width = max(map(len, self.rows))
        head, *rest = [[*row, *[""] * (width - len(row))] for row in self.rows]
        lines = [head, ["---", *["---:"] * (width - 1)], *rest]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def times(ratio: float) -> str:
    """How many times as fast."""
    return f"{ratio:.2f}x"


def percent(share: float) -> str:
    """A share of the whole."""
    return f"{share:.1%}"
