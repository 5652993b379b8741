"""Passages and hits: the plain Python types that all retrievers share."""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from typing_extensions import TypeIs

DEFAULT_K = 6
"""Default number of passages."""
LARGEST = 2**63 - 1
"""Largest integer in metadata: checkpoints cannot store larger ones."""
HAN = "々〇\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
UNSPACED = f"{HAN}\u0e00-\u0eff\u0f40-\u0fbc\u1000-\u109f\u1780-\u17d3\u3041-\u3096\u30a1-\u30ff\uac00-\ud7a3"
"""Thai, Lao, Tibetan, Burmese, Khmer, kana; and Hangul, which has spaces, but attaches particles to its words."""
RUN = re.compile(f"[{UNSPACED}]+")
Value = str | int | float | bool
Metadata = Mapping[str, Value]
Filter = Mapping[str, Value]
"""Values that passages must have in their metadata, or as docid, title or url."""


@dataclass(frozen=True)
class Passage:
    """A piece of text that can be retrieved."""

    docid: str
    """Its name in the corpus."""
    text: str
    title: str = ""
    url: str | None = None
    metadata: Metadata = field(default_factory=dict, hash=False)
    """Further properties by name: a year, a section."""

    def passes(self, filter: Filter) -> bool:
        """Return whether the passage has every value of a filter. 1821, 1821.0 and "1821" are equal."""
        known = {**self.metadata, "docid": self.docid, "title": self.title, "url": self.url}
        return all(name in known and _as_text(known[name]) == _as_text(value) for name, value in filter.items())

    @property
    def contents(self) -> str:
        """The text that is indexed: the title on its own line, then the text."""
        return f"{self.title}\n{self.text}" if self.title else self.text


@dataclass(frozen=True)
class Hit:
    """A passage that was found."""

    passage: Passage
    score: float
    """Higher is better, on the retriever's own scale (BM25 near 10, cosines below 1, 1/position in a web search);
    scores of different retrievers are never compared."""


def key_of(text: str) -> str:
    """Return 16 hexadecimal digits, equal for texts that differ only in case, character width and spacing."""
    plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return hashlib.sha256(plain.encode()).hexdigest()[:16]


def spaced(text: str) -> str:
    """Return a text in which runs without spaces are written as pairs of characters."""
    return RUN.sub(lambda run: f" {' '.join(map(''.join, pairwise(run[0]))) or run[0]} ", text)


def _as_text(value: object) -> str:
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def plain(metadata: Mapping[str, object]) -> dict[str, Value]:
    """Return the strings, finite numbers and booleans in metadata, which checkpoints and logs can store."""
    return {str(name): value for name, value in metadata.items() if _is_plain(value)}


def _is_plain(value: object) -> TypeIs[Value]:
    whole = isinstance(value, int) and abs(value) <= LARGEST  # booleans are integers too
    return whole or isinstance(value, str) or (isinstance(value, float) and math.isfinite(value))
