"""Published tables for a reader: their list, descriptions and plans, and their figures beside obtained ones.

Nothing here imports torch or langgraph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.core.text import counted, figure, one_line
from sottovoce.experiments.tables.parts import missing, weights_here
from sottovoce.experiments.tables.table import Published, names, read_published
from sottovoce.report.tables import table as markdown_table

if TYPE_CHECKING:
    from sottovoce.experiments.tables.comparison import ComparedFigure

HEADINGS = "row | metric | published | obtained | 95 % | discussions | in words"


def listed(data: Path) -> str:
    """Return a line for each table: its paper, models and data, and which of these are on this machine."""
    lines = []
    for name in names():
        table = read_published(name)
        models = ", ".join(f"{each} ({weights_here(weights)})" for each, weights in table.models.items())
        lacks = {part for model, part in table.experiments() if missing(table, model, part, data)}
        data_parts = ", ".join(f"{part}{' (not here)' * (part in lacks)}" for part in table.parts)
        lines.append([f"`{name}`", f"{table.paper.name}, {table.paper.place}", models, data_parts])
    return markdown_table("name | paper | models | data", lines)


def about(table: Published) -> Iterator[str]:
    """Yield lines that say what a table shows, how rows differ from the paper, and what cannot run here."""
    yield f"{table.paper.words}: {' '.join(table.about.split())}"
    if table.claim:
        yield f"The paper's claim: {' '.join(table.claim.split())}"
    yield from (f"- differs: {' '.join(text.split())}" for text in table.differs)
    yield from (f"- also printed: {name}: {_pairs(by)}" for name, by in table.printed.items())
    yield from (f"- drawn without numbers: {text}" for text in table.plotted)
    yield f"- printed errors: {table.error}"
    yield f"- overlap with the authors' training or validation questions: {' '.join(table.overlap.split())}"
    yield from (f"- missing: {name}: {' '.join(why.split())}" for name, why in table.missing.items())


def planned(table: Published, cells: Iterable[tuple[str, str]], data: Path) -> Iterator[str]:
    """Yield a line for each experiment: its number of discussions, and what is missing."""
    for model, part in cells:
        rows = table.rows_of(model, part)
        n = table.parts[part].get("limit")
        size = counted(len(rows), "row") + (f" of {counted(n * len(table.seeds), 'discussion')}" if n else "")
        lacks = missing(table, model, part, data)
        yield f"- {model}, {part}: {size}" + "".join(f"; {lack}" for lack in lacks)


def compared(comparisons: list[ComparedFigure]) -> str:
    """Return published figures beside ours, as a table in Markdown."""
    return markdown_table(HEADINGS, map(_line, comparisons))


def _pairs(by: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in by.items())


def _line(comparison: ComparedFigure) -> list[str]:
    ours = comparison.obtained
    interval = (
        "" if ours is None or ours.low is None or ours.high is None else f"{figure(ours.low)} to {figure(ours.high)}"
    )
    cells = [comparison.published.words if comparison.published else "", figure(ours.value) if ours else "", interval]
    return [f"`{comparison.row}`", comparison.metric, *cells, str(comparison.n or ""), one_line(comparison.words)]
