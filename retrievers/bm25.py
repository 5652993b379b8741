"""BM25 in this process with bm25s: a retriever that needs no service, Java or torch, and the builder of its indexes.

Scores follow Lucene's variant with pyserini's k1 and b. An index takes about 5 kB of memory per passage of 100 words
while it is built. An index opened from disk takes almost no memory, since it is memory-mapped. Text is analyzed nearly
as Lucene's English analyzer does it: words are lowercased, stripped of a possessive 's and stemmed, and stop words are
removed. Unlike Lucene, abbreviations are split at their dots: `U.S.` is two terms. Accents do not count: `Zurich` finds
Zürich. Scripts without spaces between words (Chinese, Japanese, Thai and others) are read as pairs of characters, as by
Lucene's CJK analyzer, and Chinese characters also one by one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field

from sottovoce.core.any_types import Untyped
from sottovoce.core.errors import CorpusError, UsageError, nearest
from sottovoce.core.text import folded
from sottovoce.core.validation import Checked
from sottovoce.retrievers.index import AGAIN, PassageStore, index_folder, read_index
from sottovoce.retrievers.passage import HAN, RUN, UNSPACED, Hit, Passage, spaced
from sottovoce.retrievers.retriever import PassageRetriever

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NAME = "bm25"
FOLDER = "bm25"
"""Subdirectory of an index with the files of bm25s."""
WORD = r"\b(?!s\b)\w+(?:(?:['’](?!s\b)|(?<=\d)[.,](?=\d))\w+)*"
"""A word or number; a possessive s is none."""
SINGLE = re.compile(f"[{HAN}]")
NONE = "none"
ENGLISH = ("porter", "english", "lovins", NONE)
"""Stemmers to which accents are foreign: their words are folded before; those of other languages use accents."""


def _known(stemmer: str) -> str:
    import Stemmer

    if stemmer not in (known := [*Stemmer.algorithms(), NONE]):
        raise UsageError(nearest("stemmer", stemmer, known))
    return stemmer


class BM25Settings(Checked):
    """The settings that an index depends on besides its passages."""

    words: Literal["folded words, character pairs"] = "folded words, character pairs"
    """The rule that finds words; an index of another rule is refused."""
    stopwords: Literal["en", "none"] = "en"
    """`en` removes Lucene's 33 English stop words; `none` keeps all words."""
    stemmer: Annotated[str, AfterValidator(_known)] = "porter"
    """Name of a Snowball stemmer of PyStemmer, or none."""
    k1: float = Field(default=0.9, ge=0)
    """How slowly the weight of repeated terms saturates."""
    b: float = Field(default=0.4, ge=0, le=1)
    """How strongly long passages are penalized, in [0, 1]."""

    def terms(self, texts: Iterable[str], *, numbered: bool) -> Untyped:
        """Return the terms of each text in order, with repetitions; `numbered` as bm25s' `Tokenized`."""
        import bm25s
        import Stemmer

        read = folded if self.stemmer in ENGLISH else partial(unicodedata.normalize, "NFKC")
        stem = list if self.stemmer == NONE else Stemmer.Stemmer(self.stemmer).stemWords  # they are not thread-safe
        return bm25s.tokenize(
            [_with_single(read(text)) for text in texts],
            token_pattern=f"[{UNSPACED}]+|{WORD}",
            stopwords="en" if self.stopwords == "en" else [],
            stemmer=lambda words: [folded(word) for word in stem(words)],
            return_ids=numbered,
            show_progress=False,
        )


def _with_single(text: str) -> str:
    """Return a text with its runs as pairs, and the Chinese characters within runs one by one at its end."""
    runs = [run for run in RUN.findall(text) if len(run) > 1]
    return " ".join([spaced(text), *SINGLE.findall(" ".join(runs))])


class BM25Index(PassageRetriever):
    """A retriever that ranks passages by BM25; it never returns passages that share no term with the query."""

    _settings: BM25Settings
    _scores: Any
    _passages: Sequence[Passage] | PassageStore

    def __init__(
        self, scores: Any, passages: Sequence[Passage] | PassageStore, settings: BM25Settings, source: str
    ) -> None:
        """Take the parts of an index; use `build` or `open` instead."""
        super().__init__(source=source)
        self._scores, self._passages, self._settings = scores, passages, settings

    @classmethod
    def build(cls, passages: Iterable[Passage], settings: BM25Settings | None = None, source: str = "corpus") -> Self:
        """Build an index in memory; a CorpusError if there are no passages."""
        corpus, settings = list(passages), settings or BM25Settings()
        return cls(scored(corpus, settings), corpus, settings, source)

    @classmethod
    def open(cls, folder: Path, source: str = "corpus") -> Self:
        """Open an index that `python cli.py data index` built; it is memory-mapped, not read.

        Raises:
            CorpusError: there is no index, it is damaged, or it was built with another rule.
        """
        import bm25s

        passages, settings = read_index(folder, NAME, BM25Settings)
        try:
            scores = bm25s.BM25.load(str(folder / FOLDER), mmap=True)
            counts = (scores.scores["num_docs"], len(scores.vocab_dict))
        except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorpusError(f"index {str(folder)!r} cannot be read: {error}; {AGAIN}") from error
        if counts != (expected := (len(passages), len(scores.scores["indptr"]) - 1)):
            raise CorpusError(f"index {str(folder)!r} has {counts} passages and terms, not {expected}; {AGAIN}")
        return cls(scores, passages, settings, source)

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the best `k` passages; ties go to the passage that comes first in the corpus."""
        known = self._scores.get_tokens_ids(self._settings.terms([query], numbered=False)[0])
        if not known:
            return []
        scores = self._scores.get_scores_from_ids(known)
        return [Hit(self._passages[row], float(scores[row])) for row in best(scores, k)]


def scored(passages: Iterable[Passage], settings: BM25Settings) -> Untyped:
    """Return the scores of all passages as bm25s computes them."""
    import bm25s

    terms = settings.terms((passage.contents for passage in passages), numbered=True)
    if not any(terms.ids):
        raise CorpusError("nothing to index: the corpus has no passages, or only stop words")
    scores = bm25s.BM25(k1=settings.k1, b=settings.b, method="lucene")
    scores.index(terms, create_empty_token=False, show_progress=False)
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


class BM25Builder:
    """An `IndexBuilder` for BM25."""

    name = NAME

    def __init__(self, settings: BM25Settings | None = None) -> None:
        """Take settings, which the manifest records."""
        self.settings = settings or BM25Settings()

    def add(self, work: Path, first: int, passages: Sequence[Passage]) -> None:
        """Do nothing: the passages themselves are stored."""

    def finish(self, work: Path, passages: PassageStore) -> None:
        """Score all passages."""
        rows = (passages[row] for row in range(len(passages)))
        scored(rows, self.settings).save(str(work / FOLDER), show_progress=False)
