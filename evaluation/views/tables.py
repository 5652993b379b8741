"""Tables in Markdown, and how their cells show shares, intervals and p values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sottovoce.evaluation.statistics import Share


def table(headings: str, lines: Iterable[Sequence[str]]) -> str:
    """Markdown; `headings` are joined by bars."""
    rule = "|".join(["---"] * len(headings.split(" | ")))
    return "\n".join([f"| {headings} |", f"|{rule}|", *(f"| {' | '.join(cells)} |" for cells in lines)])


def share_cells(found: Share | None) -> list[str]:
    """A share and its 95 % interval, in percent; empty cells where there is none."""
    return ["", ""] if found is None else [percent(found.value), f"{percent(found.low)} to {percent(found.high)}"]


def percent(part: float) -> str:
    """A part of 1 in percent."""
    return f"{part:.1%}"


def p_value(p: float | None) -> str:
    """A p value to three places; empty where there is none."""
    return "" if p is None else f"{p:.3f}" if p >= 0.001 else "< 0.001"
