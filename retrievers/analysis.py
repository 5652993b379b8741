"""From text to the terms that BM25 counts, nearly as Lucene's English analyzer does it.

Words are lower-cased, lose a possessive 's, and are stemmed; stop words go. Unlike Lucene, an
abbreviation with dots is split at them: `U.S.` is two terms here and one there.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from sottovoce.checked import Checked
from sottovoce.errors import UsageError, choose

WORD = re.compile(r"\w+(?:(?:['’]|(?<=\d)[.,](?=\d))\w+)*")
POSSESSIVE = ("'s", "’s")
NONE = "none"


def _known(stemmer: str) -> str:
    import Stemmer

    if stemmer not in (known := [*Stemmer.algorithms(), NONE]):
        raise UsageError(choose("stemmer", stemmer, known))
    return stemmer


class Analysis(Checked):
    """How text becomes terms; an index records it, and queries are analysed as its passages were."""

    tokenizer: Literal["words-1"] = "words-1"
    """The rule of this file; it is renamed when it changes, so that older indexes are refused."""
    stopwords: Literal["en", "none"] = "en"
    """Lucene's 33 English stop words, or all words are kept."""
    stemmer: Annotated[str, AfterValidator(_known)] = "porter"
    """Any of Snowball's, by PyStemmer, or none."""

    def terms(self, text: str) -> list[str]:
        """The terms of a text, in order, with repetitions."""
        words = WORD.findall(unicodedata.normalize("NFKC", text).lower())
        words = [word[:-2] if word.endswith(POSSESSIVE) else word for word in words]
        kept = [word for word in words if word not in self._stopped]
        return kept if self.stemmer == NONE else list(self._stemmer.stemWords(kept))

    @cached_property
    def _stopped(self) -> frozenset[str]:
        from bm25s.stopwords import STOPWORDS_EN

        return frozenset() if self.stopwords == NONE else frozenset(STOPWORDS_EN)

    @cached_property
    def _by_thread(self) -> threading.local:
        return threading.local()

    @property
    def _stemmer(self) -> Any:  # Any: PyStemmer has no types. One a thread: its stemmers are not thread-safe
        import Stemmer

        if not hasattr(self._by_thread, "stemmer"):
            self._by_thread.stemmer = Stemmer.Stemmer(self.stemmer)
        return self._by_thread.stemmer
