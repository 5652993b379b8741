"""The two formats of TREC: judgments (qrels, `qid 0 docid rel`) and run files (`qid Q0 docid rank score tag`).

Names in these files have no spaces: spaces are written as `_`, and names are compared in that form.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from sottovoce.core.errors import CorpusError, UsageError
from sottovoce.core.files import text_of
from sottovoce.retrievers.passage import Hit
from sottovoce.retrievers.store import PassageStore, paths_in

Qrels = dict[str, dict[str, int]]
"""Grade of each judged passage by question; a grade of 0 or less means not relevant."""
Rankings = dict[str, list[tuple[str, float]]]
"""Passages with their scores by question, best first."""
WHOLE = re.compile(r"[+-]?[0-9]{1,9}")
"""A grade or a rank."""


def bare(name: str) -> str:
    """Return a name in the form of TREC's files.

    >>> bare("Harrow mill")
    'Harrow_mill'
    """
    return "_".join(name.split())


def read_qrels(path: Path) -> Qrels:
    """Read judgments.

    Raises:
        UsageError: The file cannot be read, a line is malformed, or two lines judge the same passage of a question.
    """
    qrels: Qrels = {}
    for number, (qid, _, docid, grade) in _lines(path, 4, "qid 0 docid rel"):
        if not WHOLE.fullmatch(grade):
            raise _wrong(path, number, f"has relevance {grade[:60]!r}", "a whole number of at most 9 digits")
        if docid in qrels.setdefault(qid, {}):
            raise _wrong(path, number, f"judges passage {docid!r} of question {qid!r} again", "one line for each")
        qrels[qid][docid] = int(grade)
    return qrels


def read_rankings(path: Path) -> Rankings:
    """Read a run file: passages by decreasing score, ties by rank.

    Raises:
        UsageError: The file cannot be read, a line is malformed, or a question lists a passage twice.
    """
    listed: dict[str, dict[str, tuple[float, int]]] = {}
    for number, (qid, _, docid, rank, score, _) in _lines(path, 6, "qid Q0 docid rank score tag"):
        if not WHOLE.fullmatch(rank) or not math.isfinite(value := _number(score)):
            raise _wrong(path, number, f"has rank {rank[:60]!r} and score {score[:60]!r}", "numbers")
        if docid in listed.setdefault(qid, {}):
            raise _wrong(path, number, f"lists passage {docid!r} of question {qid!r} again", "one line for each")
        listed[qid][docid] = (-value, int(rank))
    return {
        qid: [(docid, -places[docid][0]) for docid in sorted(places, key=places.__getitem__)]
        for qid, places in listed.items()
    }


def qrels_text(qrels: Mapping[str, Mapping[str, int]]) -> str:
    """Return judgments in TREC's format."""
    lines = (f"{bare(qid)} 0 {bare(docid)} {rel}\n" for qid, own in qrels.items() for docid, rel in own.items())
    return "".join(lines)


def rankings_text(rankings: Mapping[str, Sequence[str]], tag: str) -> str:
    """Return a run file; scores are 1/rank, since those of several sources are not comparable.

    They have enough digits to distinguish ranks: trec_eval sorts only by score.
    """
    return "".join(
        f"{bare(qid)} Q0 {bare(docid)} {rank} {1 / rank:.9f} {bare(tag)}\n"
        for qid, docids in rankings.items()
        for rank, docid in enumerate(docids, 1)
    )


class TrecRun:
    """A `Searcher` that returns a run file's passages for each query, with texts from one of our indexes."""

    fingerprint = ""

    def __init__(self, rankings: Rankings, topics: Mapping[str, str], passages: PassageStore, source: str) -> None:
        """Take a run file's rankings; `topics` maps the text of a query to its qid in the run file."""
        self._rankings, self._topics, self._passages, self.source = rankings, topics, passages, source

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the first `k` passages of the query's list."""
        if (qid := self._topics.get(_plain(query))) is None:
            raise CorpusError(f"the topics of {self.source!r} have no query {query[:80]!r}")
        return [self._hit(docid, score) for docid, score in self._rankings.get(qid, [])[:k]]

    def _hit(self, docid: str, score: float) -> Hit:
        if (passage := self._passages.find(docid)) is None:
            raise CorpusError(f"there is no passage {docid!r}: run file and index belong to different corpora")
        return Hit(passage, score)


def open_trec(where: str) -> TrecRun:
    """Open a run file, its topics (`qid<TAB>query`) and one of our indexes, separated by commas in `where`."""
    if len(paths := paths_in(where)) != 3:
        raise UsageError("trec needs a run file, its topics and an index, e.g. trec:bm25.trec,topics.tsv,indexes/wiki")
    run, topics, index = paths
    rows = (line.partition("\t") for line in _text(topics).splitlines() if line.strip())
    by_query = {_plain(query): qid for qid, _, query in rows}
    return TrecRun(read_rankings(run), by_query, PassageStore(index), run.stem)


def _plain(query: str) -> str:
    return " ".join(query.split())


def _lines(path: Path, fields: int, expected: str) -> Iterator[tuple[int, list[str]]]:
    lines: Iterable[str] = _text(path).splitlines()
    for number, line in enumerate(lines, 1):
        if line.strip():
            if len(parts := line.split()) != fields:
                raise _wrong(path, number, f"is {line[:60]!r}", expected)
            yield number, parts


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _wrong(path: Path, number: int, problem: str, expected: str) -> UsageError:
    return UsageError(f"line {number} of {str(path)!r} {problem}; expected {expected}")


def _text(path: Path) -> str:
    try:
        return text_of(path).removeprefix("\ufeff")
    except OSError as error:
        raise UsageError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{str(path)!r} is not UTF-8: {error.reason} at byte {error.start}") from error
