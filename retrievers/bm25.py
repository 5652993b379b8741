"""BM25 in this process with bm25s: a retriever that needs no service, Java or torch.

Scores are those of Lucene's variant with pyserini's k1 and b. An index takes about 3 kB of memory per
passage while it is built, and almost none when it is opened from disk, since it is memory-mapped.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field

from sottovoce.core.errors import CorpusError, UsageError
from sottovoce.core.validation import Checked
from sottovoce.retrievers.analysis import Analysis
from sottovoce.retrievers.manifest import AGAIN, fingerprint, read_manifest
from sottovoce.retrievers.passage import Hit, Passage
from sottovoce.retrievers.store import Passages, PassageStore, digest_of

if TYPE_CHECKING:
    import bm25s
    import numpy as np
    from numpy.typing import NDArray

NAME = "bm25"
FOLDER = "bm25"
"""Subdirectory of an index with the files of bm25s."""


class BM25Settings(Checked):
    """The settings that an index depends on besides its passages."""

    analysis: Analysis = Analysis()
    k1: float = Field(default=0.9, ge=0)
    """How slowly the weight of repeated terms saturates."""
    b: float = Field(default=0.4, ge=0, le=1)
    """How strongly long passages are penalized, in [0, 1]."""


class BM25Index:
    """A `Searcher` that ranks passages by BM25; it never returns passages that share no term with the query."""

    def __init__(
        self, scores: bm25s.BM25, passages: Passages, settings: BM25Settings, fingerprint: str, source: str
    ) -> None:
        """Take the parts of an index; use `build` or `open` instead."""
        self._scores, self._passages, self.settings = scores, passages, settings
        self.fingerprint, self.source = fingerprint, source

    @classmethod
    def build(cls, passages: Iterable[Passage], settings: BM25Settings | None = None, source: str = "corpus") -> Self:
        """Build an index in memory.

        Raises:
            CorpusError: there are no passages, or two have the same docid.
        """
        kept, settings = list(passages), settings or BM25Settings()
        _distinct(kept)
        terms = Terms()
        for passage in kept:
            terms.add(settings.analysis.terms(passage.contents))
        print_ = fingerprint(NAME, digest_of(kept), settings.model_dump())
        return cls(scored(terms, settings), kept, settings, print_, source)

    @classmethod
    def open(cls, folder: Path, source: str = "corpus") -> Self:
        """Open an index that `python cli.py data index` built; it is memory-mapped, not read.

        Raises:
            CorpusError: there is no index, it is damaged, or it was built with other settings or another rule.
        """
        manifest = read_manifest(folder, NAME)
        try:
            settings = BM25Settings.model_validate(manifest.settings)
        except UsageError as error:
            raise CorpusError(f"index {str(folder)!r} was built differently: {error}; {AGAIN}") from error
        scores, passages = _mapped(folder), PassageStore(folder)
        found = (scores.k1, scores.b, scores.scores["num_docs"], len(passages))
        if found != (expected := (settings.k1, settings.b, manifest.passages, manifest.passages)):
            raise CorpusError(f"index {str(folder)!r} has k1, b and passages {found}, its manifest {expected}; {AGAIN}")
        if (terms := len(scores.vocab_dict)) != (counted := len(scores.scores["indptr"]) - 1):
            raise CorpusError(f"index {str(folder)!r} has {counted} terms and {terms} names for them; {AGAIN}")
        return cls(scores, passages, settings, manifest.fingerprint, source)

    def __len__(self) -> int:
        return len(self._passages)

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the best `k` passages; ties go to the passage that comes first in the corpus."""
        known = self._scores.get_tokens_ids(self.settings.analysis.terms(query))
        if not known:
            return []
        scores = self._scores.get_scores_from_ids(known)
        return [Hit(self._passages[row], float(scores[row])) for row in best(scores, k)]


class Terms:
    """The terms of passages as numbers, in order of first occurrence."""

    def __init__(self) -> None:
        """Start without passages."""
        self.numbers: dict[str, int] = {}
        self.passages: list[array[int]] = []

    def add(self, terms: Sequence[str]) -> None:
        """Append a passage's terms."""
        self.passages.append(array("i", [self.number(term) for term in terms]))

    def number(self, term: str) -> int:
        """Return the number of a term, assigning a new one if necessary."""
        return self.numbers.setdefault(term, len(self.numbers))


def scored(terms: Terms, settings: BM25Settings) -> bm25s.BM25:
    """Return the scores of all passages as bm25s computes them.

    Raises:
        CorpusError: no passage has a term.
    """
    import bm25s

    if not terms.numbers:
        raise CorpusError("nothing to index: the corpus has no passages, or only stop words")
    scores = bm25s.BM25(k1=settings.k1, b=settings.b, method="lucene")
    scores.index((terms.passages, terms.numbers), create_empty_token=False, show_progress=False)
    return scores


def best(scores: NDArray[np.float32], k: int) -> list[int]:
    """Return the rows of the `k` largest scores above 0; ties go to the first row.

    The selection of bm25s itself includes rows with score 0, rejects a k above n, and leaves the order of ties open.
    """
    import numpy as np

    rows = np.flatnonzero(scores > 0)
    if len(rows) > k:
        least = np.partition(scores[rows], -k)[-k]
        rows = rows[scores[rows] >= least]
    return [int(row) for row in rows[np.lexsort((rows, -scores[rows]))][:k]]


def open_bm25(where: str) -> BM25Index:
    """Open the index in a directory.

    Raises:
        UsageError: `where` is empty, or there is no index in it.
    """
    if not where:
        raise UsageError("bm25 needs the directory of an index, e.g. bm25:indexes/wiki")
    folder = Path(where).expanduser()
    return BM25Index.open(folder, folder.name)


def _mapped(folder: Path) -> Any:  # Any: bm25s has no types
    import bm25s

    try:
        return bm25s.BM25.load(str(folder / FOLDER), mmap=True)
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorpusError(f"index {str(folder)!r} cannot be read: {error}; {AGAIN}") from error


def _distinct(passages: Sequence[Passage]) -> None:
    seen: set[str] = set()
    for passage in passages:
        if passage.docid in seen:
            raise CorpusError(f"two passages have the docid {passage.docid!r}; each needs its own")
        seen.add(passage.docid)
