"""Analysis of text into the terms that BM25 counts, nearly as Lucene's English analyzer does it.

Words are lowercased, stripped of a possessive 's and stemmed; stop words are removed. Unlike Lucene,
abbreviations are split at their dots: `U.S.` is two terms here and one in Lucene.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from sottovoce.core.errors import UsageError, choose
from sottovoce.core.validation import Checked

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
