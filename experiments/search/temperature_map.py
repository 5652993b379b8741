"""The temperature map (CIPHER, arXiv 2310.06272, Fig. 5).

It shows how often the first debater's last answer is right, by the two temperatures, and again with agents swapped.

FOLDER/map.csv and map.svg; tune.json also contains the points.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from sottovoce.analysis.statistics import Share
from sottovoce.core.outputs import write
from sottovoce.experiments.search.plots import heat

TABLE, PLOT = "map.csv", "map.svg"
COLUMNS = (
    "first_temperature", "second_temperature", "first", "first_low", "first_high",
    "swapped", "swapped_low", "swapped_high",
)  # fmt: skip


@dataclass(frozen=True)
class Point:
    """Two temperatures, and how often the first debater's last answer is right."""

    temperatures: tuple[float, ...]
    """Of the first and the second debater."""
    first: Share
    swapped: Share
    """The same with the two temperatures swapped."""


def keep_map(folder: Path, points: Sequence[Point], grid: Sequence[float] | None) -> None:
    """Write the map's table and plot, if there are points.

    Raises:
        RecordError: they cannot be written.
    """
    if not points:
        return
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([*each.temperatures, *_cells(each.first), *_cells(each.swapped)] for each in points)
    write(folder / TABLE, text.getvalue())
    panels = {
        "the first debater's last answer": {each.temperatures: each.first.value for each in points},
        "the same, order swapped": {each.temperatures: each.swapped.value for each in points},
    }
    heat(folder / PLOT, panels, grid)


def _cells(found: Share) -> list[str]:
    return [f"{value:.4f}" for value in (found.value, found.low, found.high)]
