"""Passages read from a file in a stream: JSON Lines, or the TSV of DPR's Wikipedia (`psgs_w100.tsv`), also as .gz.

A line of JSON names the passage `docid`, `id` or `_id`, and its words `text` or `contents`; `title` and
`url` may stand beside them. Those are the names of pyserini, BEIR and DPR; other keys are passed over.
DPR's file has a heading `id<TAB>text<TAB>title`, and quotes where a text holds quotes.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

from sottovoce.errors import CorpusError
from sottovoce.retrievers.passage import Passage

DOCID, TEXT = ("docid", "id", "_id"), ("text", "contents")
HEADING = ["id", "text", "title"]
LONGEST_FIELD = 2**31 - 1  # characters; csv refuses more than 131072 otherwise


def read_corpus(path: Path) -> Iterator[Passage]:
    """The passages of a file, in its order, one at a time.

    Raises:
        CorpusError: no such file, a name that ends in neither .jsonl nor .tsv (nor with .gz), or a line
            that holds no passage, with its number.
    """
    readers: dict[str, Callable[[TextIO], Iterator[Passage]]] = {".jsonl": _json_lines, ".tsv": _dpr}
    name = path.name.removesuffix(".gz")
    if (read := readers.get(Path(name).suffix)) is None:
        raise CorpusError(f"corpus {str(path)!r} is no .jsonl and no .tsv file (each may end in .gz)")
    lines = _Numbered()
    try:
        with _opened(path) as stream:
            yield from lines.count(read(stream))
    except OSError as error:
        raise CorpusError(f"corpus {str(path)!r} cannot be read: {error.strerror or error}") from error
    except (ValueError, EOFError, csv.Error) as error:  # of gzip, UTF-8, JSON, or ours
        raise CorpusError(f"corpus {str(path)!r}, passage {lines.number + 1}: {error}") from error


class _Numbered:
    """Knows how many passages went by."""

    number = 0

    def count(self, passages: Iterator[Passage]) -> Iterator[Passage]:
        for passage in passages:
            yield passage
            self.number += 1


def _opened(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")


def _json_lines(stream: TextIO) -> Iterator[Passage]:
    for line in stream:
        if line.strip():
            yield _passage(json.loads(line))


def _passage(found: Any) -> Passage:  # Any: JSON
    if not isinstance(found, dict):
        raise ValueError(f"expected an object, found {str(found)[:40]!r}")
    docid, text = _first(found, DOCID), _first(found, TEXT)
    title, url = found.get("title") or "", found.get("url")
    return _sound(Passage(str(docid), text, title, url))


def _first(found: dict[str, Any], names: tuple[str, ...]) -> Any:  # Any: JSON
    for name in names:
        if name in found:
            return found[name]
    raise ValueError(f"it has no {names[0]!r} (nor {', '.join(map(repr, names[1:]))})")


def _dpr(stream: TextIO) -> Iterator[Passage]:
    csv.field_size_limit(LONGEST_FIELD)
    rows = csv.reader(stream, delimiter="\t")
    if (heading := next(rows, [])) != HEADING:
        raise ValueError(f"the heading is {heading!r}: expected {HEADING!r}")
    for row in rows:
        if len(row) != len(HEADING):
            raise ValueError(f"a row of {len(row)} fields: expected id, text and title between tabs")
        yield _sound(Passage(*row))


def _sound(passage: Passage) -> Passage:
    told = {"docid": passage.docid, "text": passage.text, "title": passage.title, "url": passage.url or ""}
    for name, value in told.items():
        if not isinstance(value, str):
            raise ValueError(f"its {name} is {value!r}: expected a text")
    if not passage.docid or not passage.text.strip():
        raise ValueError(f"its {'text' if passage.docid else 'docid'} is empty")
    return passage
