"""What a search opens, by the library that the settings name."""

from __future__ import annotations

from typing import Any

from sottovoce.nodes.context import RunContext
from sottovoce.nodes.retrieval import Articles, library_of
from sottovoce.prompts.render import Prompts
from sottovoce.retrievers import Passage
from sottovoce.settings import ReAct

PIECES = [
    {"title": "Aldmoor", "text": "It is old. It has a mill."},
    {"title": "Bern Holt", "text": "Bern Holt slept."},
    {"title": "aldmoor", "text": "The mill burnt."},
    {"text": "Nobody knows."},
]


def test_passages_of_one_title_are_one_page() -> None:
    """All but the first were never found: the passages of data sets are pieces of articles."""
    question: Any = {"question": "Q?", "id": "1", "documents": PIECES}
    library = library_of(RunContext(ReAct(library="documents"), {}, Prompts()), question)
    page = library.page("Aldmoor")
    assert page is not None and page.sentences == ("It is old.", "It has a mill.", "The mill burnt.")
    assert library.similar("Document 4", 1) == ["Document 4"]


BERN = """Bern Holt (1871 - 1940) was a miller. He was born in Aldmoor.

== Life and work ==
Holt never travelled.
=== Two mills he built ===
The old mill of Kell
Notes

== See also ==
Aldmoor
"""


class Recorded:
    """A wiki with one article, which is found by a search only."""

    def page(self, title: str) -> Passage | None:
        return Passage("1", BERN, title) if title == "Bern Holt" else None

    def similar(self, query: str, n: int) -> list[str]:
        return ["Bern Holt", "Holt (surname)", "Bern"][:n]


def test_of_an_article_paragraphs_and_lists_are_read_and_headings_are_not() -> None:
    """ "== Life and work ==" was shown as a sentence."""
    page = Articles(Recorded()).page("Bern Holt")
    assert page is not None and page.sentences == (
        "Bern Holt (1871 - 1940) was a miller.", "He was born in Aldmoor.", "Holt never travelled.",
        "The old mill of Kell",
    )  # fmt: skip


def test_the_right_title_stands_among_the_similar_ones() -> None:
    """It was left out, since it is spelt like the name that was searched."""
    assert Articles(Recorded()).similar("BERN HOLT", 2) == ["Bern Holt", "Holt (surname)"]
