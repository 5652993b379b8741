"""The published figures of an experiment's rows, in a file of its folder, so that reports do not need the table.

Nothing here imports torch or langgraph.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sottovoce.core.errors import RecordError, UsageError
from sottovoce.core.files import text_of
from sottovoce.core.outputs import write
from sottovoce.experiments.schema import Content
from sottovoce.experiments.tables.figures import MEAN, SPREAD, Figure, Figures, by_metric
from sottovoce.experiments.tables.table_schema import Published

FILE = "published.json"
ACCURACY = "accuracy"
"""The name of the mean score in reports."""
PERCENT = 100


def keep_figures(table: Published, model: str, part: str, folder: Path) -> None:
    """Write the published figures of this model and part into the folder of its experiment.

    Raises:
        RecordError: the file cannot be written.
    """
    rows = {row: {name: _plain(each) for name, each in by.items()} for row, by in table.figures(model, part).items()}
    place, claim = table.paper.words, table.claim.strip()
    kept: Content = {"place": place, "model": model, "part": part, "claim": claim}
    kept |= {"metrics": table.metrics, "percent": table.percent, "rows": rows}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write(folder / FILE, json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise RecordError(f"{str(folder / FILE)!r} cannot be written: {error.strerror}") from error


def published_in(folder: Path) -> Figures:
    """Return the published figures of an experiment that `experiment reproduce` ran, as printed; {} for any other.

    Raises:
        RecordError: the file is damaged.
    """
    return _read(folder)[0]


def in_our_units(folder: Path) -> dict[str, dict[str, float]]:
    """Return them by row and "accuracy" (the score) or the name of a measure of results, with shares from 0 to 1.

    Other metrics, such as an agent's answers in a round, are left out. Errors: see `published_in`.
    """
    rows, metrics, percent = _read(folder)
    names = {metric: ACCURACY if of == "score" else of for metric, of in metrics.items() if " " not in of}
    return {
        row: {
            names[name]: each.mean / (PERCENT if name in percent else 1) for name, each in by.items() if name in names
        }
        for row, by in rows.items()
    }


def _read(folder: Path) -> tuple[Figures, dict[str, str], list[str]]:
    """Return the figures, the meaning of each metric here, and the metrics that are printed as percentages."""
    path = folder / FILE
    if not path.exists():
        return {}, {}, []
    try:
        kept: dict[str, Any] = json.loads(text_of(path))  # Any: JSON
        figures = {row: by_metric(by, "") for row, by in kept["rows"].items()}
        return figures, dict(kept["metrics"]), list(kept["percent"])
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError, UsageError) as error:
        raise RecordError(f"{str(path)!r} is damaged; run the experiment again to rewrite it") from error


def _plain(figure: Figure) -> object:
    return list(figure.runs) if figure.spread is None else {MEAN: figure.mean, SPREAD: figure.spread}
