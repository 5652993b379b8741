"""Checks of files exported from a run: its table of results and its card."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from html import escape, unescape
from pathlib import Path
from typing import Any

from sottovoce.core.errors import RecordError
from sottovoce.core.files import text_of
from sottovoce.report.comparison import rows_of
from sottovoce.report.page import SEALED, seal_of
from sottovoce.runs.card import CARD_FORMAT, SEAL, card, seal
from sottovoce.runs.results import of_cell
from sottovoce.runs.run import Run
from sottovoce.verify.findings import Finding, differences

SINCE_2 = re.compile(r"^accuracy_failed_wrong$|^models\..*\.table$")
"""Fields that cards of version 1 do not have."""
NUMBERS = re.compile(r'<section id="numbers">.*?</section>', re.DOTALL)
CARDS = re.compile(r'<script type="application/json" id="data-cards">(.*?)</script>', re.DOTALL)
"""The cards of a report's runs; the JSON of a page contains no "<"."""


def check_table(run: Run, path: Path) -> Iterator[Finding]:
    """Check a CSV of `runs export`, row by row.

    Raises:
        RecordError: it cannot be read, or is not such a table.
    """
    found, expected = _rows(_text(path), path), _rows(run.results().to_csv(), path)
    for key in dict.fromkeys([*found, *expected]):
        where = (path.name, f"question {key[0]}, seed {key[1]}")
        for name, had, wanted in differences(found.get(key), expected.get(key), "the row"):
            yield Finding(name.removeprefix("the row."), had, wanted, where)


def _rows(text: str, path: Path) -> dict[tuple[str, str], dict[str, str]]:
    reader = csv.DictReader(io.StringIO(text), restkey="beyond the names")
    try:  # a row may have more or fewer cells than there are names
        rows = [
            {name: of_cell(cell) if isinstance(cell, str) else cell for name, cell in row.items()} for row in reader
        ]
    except csv.Error as error:
        raise RecordError(f"{str(path)!r} is not a table of results: {error}, line {reader.line_num}") from error
    if not rows or not {"question", "seed"} <= rows[0].keys():
        raise RecordError(f"{str(path)!r} is not a table of results: expected the columns question, seed, answer, ...")
    found = {(row["question"], row["seed"]): row for row in rows}
    if len(found) < len(rows):
        raise RecordError(f"{str(path)!r} has two rows for one question and seed; expected one")
    return found


def check_card(run: Run, path: Path) -> Iterator[Finding]:
    """Check a card of `runs export` or of a report: each field, and its seal.

    Raises:
        RecordError: it cannot be read, is not a card, or the run is not over.
    """
    yield from _page(path, run)
    card_data = _card(path, run)
    if card_data.get(SEAL) != (sealed := seal(card_data)):
        yield Finding("the card's own digest", card_data.get(SEAL), sealed, (path.name,))
    fresh = card(run)
    for name, found, expected in differences(_unsealed(card_data), _unsealed(fresh)):
        if card_data.get("version") == 1 and (name == "version" or (found is None and SINCE_2.search(name))):
            continue
        yield Finding(f"the card's {name}", found, expected, (path.name,))


def _page(path: Path, run: Run) -> Iterator[Finding]:
    """Check what a reader of a report sees: the page's digest, and the run's row of figures."""
    text = _text(path)
    if run.folder is None or not CARDS.search(text):
        return
    sealed = SEALED.search(text)
    if sealed is None or sealed[1] != seal_of(text):
        yield Finding("the page's own digest", sealed[1] if sealed else None, seal_of(text), (path.name,))
    name = run.folder.resolve().name
    numbers = NUMBERS.search(text)
    rows_shown = numbers[0].split('<tr><th scope="row">') if numbers else []
    found = next(
        (row.partition("</tr>")[0].split("<td>") for row in rows_shown if row.startswith(f"{escape(name)}</th>")), []
    )
    shown = [unescape(re.sub(r"</t[dh]>", "", cell)) for cell in found]
    rows = [rows_of({name: run}, failed=failed)[0] for failed in (False, True)]
    expected = next((row for row in rows if len(row) == len(shown)), rows[0])
    if shown != expected:
        yield Finding("the figures of the page", shown, expected, (path.name,))


def _card(path: Path, run: Run) -> dict[str, Any]:  # Any: plain JSON
    text = _text(path)
    in_page = CARDS.search(text)
    try:
        card_data = json.loads(in_page[1] if in_page else text)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{str(path)!r} is not a card of a run: it is not JSON ({error})") from error
    card_data = _of_report(card_data, run, path) if in_page else card_data
    if not isinstance(card_data, dict) or card_data.get("format") != CARD_FORMAT:
        raise RecordError(f"{str(path)!r} is not a card of a run that is over: expected the format {CARD_FORMAT!r}")
    return card_data


def _of_report(cards: Any, run: Run, path: Path) -> Any:  # Any: JSON
    """Return the run's card from the cards of a report, which are named after the runs' directories."""
    name = run.folder.resolve().name if run.folder else ""
    if not isinstance(cards, dict) or name not in cards:
        known = ", ".join(map(repr, cards)) or "none"
        raise RecordError(f"report {str(path)!r} has no card of {name!r}; it has those of {known}")
    return cards[name]


def _unsealed(card_data: dict[str, Any]) -> dict[str, Any]:  # Any: plain JSON
    return {name: value for name, value in card_data.items() if name != SEAL}


def _text(path: Path) -> str:
    try:
        return text_of(path)
    except OSError as error:
        raise RecordError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RecordError(f"{str(path)!r} cannot be read: it is not text ({error})") from error
