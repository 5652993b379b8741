"""An encyclopedia of invented people, places, books and firms, with questions about it, from `encyclopedia.json`.

For a bridge, one article tells which one to read next; the other types name their subjects:

    bridge      In which town was the author of The Salt Ledger born?                 a few words
    comparison  Who was born earlier, Ines Halm or Orla Vance?                        a few words
    strategy    Could Lisbet Orne have read The Salt Ledger as a child?               yes or no
    claim       The author of The Salt Ledger was born in Greyholt.                   one of LABELS (as in FEVER)
    fact        Who wrote The Salt Ledger?                                            a few words
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from sottovoce.core.any_types import JSON
from sottovoce.core.errors import UsageError
from sottovoce.environments.react import Page, Pages
from sottovoce.retrievers.passage import Passage

if TYPE_CHECKING:
    from sottovoce.retrievers.bm25 import BM25Index

Type = Literal["bridge", "comparison", "strategy", "claim", "fact"]
TYPES: tuple[Type, ...] = ("bridge", "comparison", "strategy", "claim")
"""Types that need more than finding and reading one article; a fact needs only that."""
LABELS = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO")


@dataclass(frozen=True)
class Article:
    """One page."""

    title: str
    kind: str
    """`person`, `town`, `country`, `river`, `book`, `firm`, `thing`, or `name` for an ambiguous title."""
    sentences: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    """Other names under which it is found."""
    options: tuple[str, ...] = ()
    """Titles that an ambiguous name may refer to."""

    @property
    def text(self) -> str:
        """The complete text."""
        return " ".join(self.sentences)


class Gold(NamedTuple):
    """The location of a fact."""

    title: str
    sentence: int | None
    """0-based; None if the article does not state the fact, which is what has to be found out."""


@dataclass(frozen=True)
class Asked:
    """A question with its answer and the steps to it."""

    type: Type
    text: str
    answer: str
    gold: tuple[Gold, ...]
    """Locations of the facts needed, in the order in which they are found."""
    steps: tuple[str, ...]
    """Actions of an agent in ReAct's world that knows where to look; the last one states the answer."""


class Encyclopedia(Pages):
    """The articles as pages."""

    def __init__(self, articles: Sequence[Article]) -> None:
        pages = [Page(article.title, article.sentences, article.options) for article in articles]
        super().__init__(pages, {name: article.title for article in articles for name in article.aliases})
        self.articles = articles
        self.by_title = {article.title: article for article in articles}


@cache
def _content() -> dict[str, list[JSON]]:
    text = Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
    content: dict[str, list[dict[str, Any]]] = json.loads(text)
    return content


@cache
def encyclopedia() -> Encyclopedia:
    """Return the encyclopedia."""
    lists = ("sentences", "aliases", "options")
    rows = _content()["articles"]
    return Encyclopedia([Article(**row | {name: tuple(row.get(name, ())) for name in lists}) for row in rows])


@cache
def questions(type: Type) -> tuple[Asked, ...]:
    """Return all questions of a type."""
    return tuple(
        Asked(type, row["text"], row["answer"], tuple(Gold(*place) for place in row["gold"]), tuple(row["steps"]))
        for row in _content()["questions"]
        if row["type"] == type
    )


@cache
def open_encyclopedia(where: str = "") -> BM25Index:
    """Return an index of the encyclopedia, built within a second and cached in memory; `where` must be empty."""
    from sottovoce.retrievers.bm25 import BM25Index  # late: a command's help needs no index

    if where:
        raise UsageError(f"encyclopedia:{where} does not exist; use encyclopedia")
    passages = (Passage(article.title, article.text, article.title) for article in encyclopedia().articles)
    return BM25Index.build(passages, source="encyclopedia")
