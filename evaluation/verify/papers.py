"""What was written of a run, beside it: an exported table of results, and its card."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sottovoce.errors import RecordError
from sottovoce.evaluation.runs.card import FORMAT, SEAL, card, seal
from sottovoce.evaluation.runs.results import table
from sottovoce.evaluation.runs.run import Run
from sottovoce.evaluation.verify.findings import Finding, differences


def check_table(run: Run, path: Path) -> Iterator[Finding]:
    """A CSV as `runs export` wrote it, row by row.

    Raises:
        RecordError: it cannot be read, or is no such table.
    """
    found, expected = _rows(_text(path), path), _rows(table(run.results()), path)
    for key in dict.fromkeys([*found, *expected]):
        where = (path.name, f"question {key[0]}, seed {key[1]}")
        for name, had, wanted in differences(found.get(key), expected.get(key), "the row"):
            yield Finding(name.removeprefix("the row."), had, wanted, where)


def _rows(text: str, path: Path) -> dict[tuple[str, str], dict[str, str]]:
    rows = list(csv.DictReader(io.StringIO(text)))
    if not rows or not {"question", "seed"} <= rows[0].keys():
        raise RecordError(f"{str(path)!r} is no table of results: expected the columns question, seed, answer, ...")
    found = {(row["question"], row["seed"]): row for row in rows}
    if len(found) < len(rows):
        raise RecordError(f"{str(path)!r} has two rows of one question and seed; expected one each")
    return found


def check_card(run: Run, path: Path) -> Iterator[Finding]:
    """A card as `runs export` wrote it: field by field, and its own seal.

    Raises:
        RecordError: it cannot be read, is no card, or the run is not over.
    """
    given = _card(path)
    if given.get(SEAL) != (sealed := seal(given)):
        yield Finding("the card's own digest", given.get(SEAL), sealed, (path.name,))
    fresh = card(run)
    for name, found, expected in differences(_unsealed(given), _unsealed(fresh)):
        yield Finding(f"the card's {name}", found, expected, (path.name,))


def _card(path: Path) -> dict[str, Any]:  # Any: plain JSON
    try:
        given = json.loads(_text(path))
    except ValueError as error:
        raise RecordError(f"{str(path)!r} is no card of a run: it is no JSON ({error})") from error
    if not isinstance(given, dict) or given.get("format") != FORMAT:
        raise RecordError(f"{str(path)!r} is no card of a run: expected the format {FORMAT!r}")
    return given


def _unsealed(given: dict[str, Any]) -> dict[str, Any]:  # Any: plain JSON
    return {name: value for name, value in given.items() if name != SEAL}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{str(path)!r} cannot be read: {error}") from error
