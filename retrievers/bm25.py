"""BM25 in this process with bm25s: a retriever that needs no service, Java or torch, and the builder of its indexes.

Scores are those of Lucene's variant with pyserini's k1 and b. An index takes about 3 kB of memory per
passage while it is built, and almost none when it is opened from disk, since it is memory-mapped.
Text is analyzed nearly as Lucene's English analyzer does it: words are lowercased, stripped of a possessive 's and
stemmed, and stop words are removed. Unlike Lucene, abbreviations are split at their dots: `U.S.` is two terms.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from array import array
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field

from sottovoce.core.errors import CorpusError, UsageError, choose
from sottovoce.core.validation import Checked
from sottovoce.retrievers.passage import Hit, Passage
from sottovoce.retrievers.store import (
    AGAIN,
    Passages,
    PassageStore,
    digest_of,
    fingerprint,
    index_folder,
    read_index,
)

if TYPE_CHECKING:
    import bm25s
    import numpy as np
    from numpy.typing import NDArray

NAME = "bm25"
FOLDER = "bm25"
"""Subdirectory of an index with the files of bm25s."""


WORD = re.compile(r"\w+(?:(?:['’]|(?<=\d)[.,](?=\d))\w+)*")
POSSESSIVE = ("'s", "’s")
NONE = "none"


def _known(stemmer: str) -> str:
    import Stemmer

    if stemmer not in (known := [*Stemmer.algorithms(), NONE]):
        raise UsageError(choose("stemmer", stemmer, known))
    return stemmer


class Analysis(Checked):
    """How text is turned into terms; an index records it, so that queries are analyzed like its passages."""

    tokenizer: Literal["words-1"] = "words-1"
    """Name of this file's rule; it changes with the rule, so that older indexes are rejected."""
    stopwords: Literal["en", "none"] = "en"
    """`en` removes Lucene's 33 English stop words; `none` keeps all words."""
    stemmer: Annotated[str, AfterValidator(_known)] = "porter"
    """Name of a Snowball stemmer of PyStemmer, or none."""

    def terms(self, text: str) -> list[str]:
        """Return the terms of a text, in order, with repetitions."""
        words = WORD.findall(unicodedata.normalize("NFKC", text).lower())
        words = [word[:-2] if word.endswith(POSSESSIVE) else word for word in words]
        left = [word for word in words if word not in self._stopped]
        return left if self.stemmer == NONE else list(self._stemmer.stemWords(left))

    @cached_property
    def _stopped(self) -> frozenset[str]:
        from bm25s.stopwords import STOPWORDS_EN

        return frozenset() if self.stopwords == NONE else frozenset(STOPWORDS_EN)

    @cached_property
    def _by_thread(self) -> threading.local:
        return threading.local()

    @property
    def _stemmer(self) -> Any:  # Any: PyStemmer has no types. One per thread: its stemmers are not thread-safe
        import Stemmer

        if not hasattr(self._by_thread, "stemmer"):
            self._by_thread.stemmer = Stemmer.Stemmer(self.stemmer)
        return self._by_thread.stemmer


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
        corpus, settings = list(passages), settings or BM25Settings()
        _check_docids(corpus)
        terms = Terms()
        for passage in corpus:
            terms.add(settings.analysis.terms(passage.contents))
        print_ = fingerprint(NAME, digest_of(corpus), settings.model_dump())
        return cls(scored(terms, settings), corpus, settings, print_, source)

    @classmethod
    def open(cls, folder: Path, source: str = "corpus") -> Self:
        """Open an index that `python cli.py data index` built; it is memory-mapped, not read.

        Raises:
            CorpusError: there is no index, it is damaged, or it was built with other settings or another rule.
        """
        manifest, settings = read_index(folder, NAME, BM25Settings)
        scores, passages = _mapped(folder), PassageStore(folder)
        actual = (scores.k1, scores.b, scores.scores["num_docs"], len(passages))
        if actual != (expected := (settings.k1, settings.b, manifest.passages, manifest.passages)):
            raise CorpusError(
                f"index {str(folder)!r} has k1, b and passages {actual}, its manifest {expected}; {AGAIN}"
            )
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
    """Return the scores of all passages as bm25s computes them."""
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
    """Open the index in a directory."""
    folder = index_folder(where, NAME)
    return BM25Index.open(folder, folder.name)


def _mapped(folder: Path) -> Any:  # Any: bm25s has no types
    import bm25s

    try:
        return bm25s.BM25.load(str(folder / FOLDER), mmap=True)
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorpusError(f"index {str(folder)!r} cannot be read: {error}; {AGAIN}") from error


def _check_docids(passages: Sequence[Passage]) -> None:
    seen: set[str] = set()
    for passage in passages:
        if passage.docid in seen:
            raise CorpusError(f"two passages have the docid {passage.docid!r}; each needs its own")
        seen.add(passage.docid)


class BM25Builder:
    """An `IndexBuilder` for BM25. Passages are streamed; at the end all terms are in memory, as numbers."""

    name = NAME
    packages: tuple[str, ...] = ("bm25s", "PyStemmer")

    def __init__(self, settings: BM25Settings | None = None) -> None:
        """Take settings, which the manifest records."""
        self.settings = settings or BM25Settings()

    def add(self, shards: Path, number: int, passages: Sequence[Passage]) -> None:
        """Write the shard's vocabulary and numbers; no shard depends on another."""
        import numpy as np

        terms = Terms()
        for passage in passages:
            terms.add(self.settings.analysis.terms(passage.contents))
        np.savez(
            _shard_file(shards, number),
            vocabulary=np.frombuffer("\n".join(terms.numbers).encode(), dtype=np.uint8),
            lengths=np.array([len(numbers) for numbers in terms.passages], dtype=np.int64),
            numbers=np.concatenate([np.frombuffer(numbers, dtype=np.int32) for numbers in terms.passages]),
        )

    def finish(self, shards: Path, n: int, work: Path) -> None:
        """Score all passages over the joined vocabulary, with terms in order of first occurrence."""
        terms = Terms()
        for number in range(n):
            _join(terms, _shard_file(shards, number))
        scored(terms, self.settings).save(str(work / FOLDER), show_progress=False)


def _shard_file(shards: Path, number: int) -> Path:
    return shards / f"terms-{number:05}.npz"


def _join(terms: Terms, file: Path) -> None:
    import numpy as np

    with np.load(file) as shard:
        vocabulary = bytes(shard["vocabulary"]).decode().split("\n")
        renumbered = np.array([terms.number(term) for term in vocabulary], dtype=np.int32)
        numbers, ends = shard["numbers"], np.cumsum(shard["lengths"])
    numbers = renumbered[numbers]
    for start, end in pairwise([0, *ends.tolist()]):
        terms.passages.append(array("i", numbers[start:end].tobytes()))
