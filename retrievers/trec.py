"""TREC's two formats: judgments (qrels, `qid 0 docid rel`) and run files (`qid Q0 docid rank score tag`).

Names stand in them without spaces: those of a name that has some are written as _, and compared so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from sottovoce.errors import CorpusError, UsageError
from sottovoce.regular import text_of
from sottovoce.retrievers.passage import Hit
from sottovoce.retrievers.store import PassageStore

Qrels = dict[str, dict[str, int]]
"""By question: how relevant a passage is; 0 is not."""
Rankings = dict[str, list[tuple[str, float]]]
"""By question: passages with their scores, the best first."""


def bare(name: str) -> str:
    """Return a name as TREC's files have it.

    >>> bare("Harrow mill")
    'Harrow_mill'
    """
    return "_".join(name.split())


def read_qrels(path: Path) -> Qrels:
    """Read judgments.

    Raises:
        UsageError: the file cannot be read, or a line is none.
    """
    found: Qrels = {}
    for number, (qid, _, docid, relevance) in _lines(path, 4, "qid 0 docid rel"):
        try:
            found.setdefault(qid, {})[docid] = int(relevance)
        except ValueError:
            raise UsageError(f"line {number} of {str(path)!r} has relevance {relevance!r}; expected a number") from None
    return found


def read_rankings(path: Path) -> Rankings:
    """Read a run file; of equal scores the smaller rank stands first.

    Raises:
        UsageError: the file cannot be read, or a line is none.
    """
    found: dict[str, list[tuple[float, int, str]]] = {}
    for number, (qid, _, docid, rank, score, _) in _lines(path, 6, "qid Q0 docid rank score tag"):
        try:
            found.setdefault(qid, []).append((-float(score), int(rank), docid))
        except ValueError:
            raise UsageError(
                f"line {number} of {str(path)!r} has rank {rank!r} and score {score!r}; expected numbers"
            ) from None
    return {qid: [(docid, -score) for score, _, docid in sorted(lines)] for qid, lines in found.items()}


def qrels_text(qrels: Mapping[str, Mapping[str, int]]) -> str:
    """Return judgments as lines."""
    lines = (f"{bare(qid)} 0 {bare(docid)} {rel}\n" for qid, own in qrels.items() for docid, rel in own.items())
    return "".join(lines)


def rankings_text(rankings: Mapping[str, Sequence[str]], tag: str) -> str:
    """Return a run file; scores are 1/rank, since those of several sources are not comparable."""
    return "".join(
        f"{bare(qid)} Q0 {bare(docid)} {rank} {1 / rank:.6f} {bare(tag)}\n"
        for qid, docids in rankings.items()
        for rank, docid in enumerate(docids, 1)
    )


class TrecRun:
    """A `Searcher` that finds for each query what a run file lists, with passages of an index of ours."""

    fingerprint = ""

    def __init__(self, rankings: Rankings, topics: Mapping[str, str], passages: PassageStore, source: str) -> None:
        """`topics` are the run's question names by the text of the query."""
        self._rankings, self._topics, self._passages, self.source = rankings, topics, passages, source

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the first `k` of the query's list.

        Raises:
            CorpusError: the query is no topic, or the index lacks a passage.
        """
        if (qid := self._topics.get(_plain(query))) is None:
            raise CorpusError(f"the topics of {self.source!r} have no query {query[:80]!r}")
        return [self._hit(docid, score) for docid, score in self._rankings.get(qid, [])[:k]]

    def _hit(self, docid: str, score: float) -> Hit:
        if (passage := self._passages.find(docid)) is None:
            raise CorpusError(f"there is no passage {docid!r}: run file and index are of different corpora")
        return Hit(passage, score)


def open_trec(where: str) -> TrecRun:
    """Open a run file, its topics (`qid<TAB>query`), and an index of ours, with commas between.

    Raises:
        UsageError: not three of them, or one cannot be read.
    """
    parts = [Path(each.strip()).expanduser() for each in where.split(",") if each.strip()]
    if len(parts) != 3:
        raise UsageError("trec reads a run file, its topics, and an index: e.g. trec:bm25.trec,topics.tsv,indexes/wiki")
    run, topics, index = parts
    rows = (line.partition("\t") for line in _text(topics).splitlines() if line.strip())
    by_query = {_plain(query): qid for qid, _, query in rows}
    return TrecRun(read_rankings(run), by_query, PassageStore(index), run.stem)


def _plain(query: str) -> str:
    return " ".join(query.split())


def _lines(path: Path, fields: int, expected: str) -> Iterator[tuple[int, list[str]]]:
    lines: Iterable[str] = _text(path).splitlines()
    for number, line in enumerate(lines, 1):
        if line.strip():
            if len(found := line.split()) != fields:
                raise UsageError(f"line {number} of {str(path)!r} is {line[:60]!r}; expected {expected}")
            yield number, found


def _text(path: Path) -> str:
    try:
        return text_of(path).removeprefix("\ufeff")
    except OSError as error:
        raise UsageError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{str(path)!r} is not UTF-8: {error.reason} at byte {error.start}") from error
