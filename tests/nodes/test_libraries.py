"""What a search opens, by the library that the settings name."""

from __future__ import annotations

from typing import Any

from sottovoce.nodes.context import RunContext
from sottovoce.nodes.libraries import Articles, library_of
from sottovoce.nodes.settings import ReAct
from sottovoce.prompts.render import Prompts
from sottovoce.retrievers import Passage

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


class Ambiguous:
    """A wiki whose page of that name tells what it may mean, and is found by a search."""

    def page(self, title: str) -> Passage | None:
        return None

    def similar(self, query: str, n: int) -> list[str]:
        return ["Mill", "Mill (river)", "John Mill", "Miller"][:n]


def test_an_ambiguous_name_is_not_offered_again() -> None:
    wiki = Articles(Ambiguous())
    assert wiki.page("mill") is None and wiki.similar("mill", 2) == ["Mill (river)", "John Mill"]
