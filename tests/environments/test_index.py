"""The encyclopedia as a retriever: what one search of a question brings, and what it cannot."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_tests.integration_tests import RetrieversIntegrationTests

from sottovoce.core.errors import UsageError
from sottovoce.environments.encyclopedia import encyclopedia, open_encyclopedia
from sottovoce.environments.encyclopedia.questions import questions
from sottovoce.retrievers import PassageRetriever, open_retriever


class TestStandard(RetrieversIntegrationTests):
    """langchain-tests' suite."""

    @property
    def retriever_constructor(self) -> type[PassageRetriever]:
        return PassageRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"searcher": open_encyclopedia()}

    @property
    def retriever_query_example(self) -> str:
        return "Which physician found the cause of marsh fever?"


def share(type: str, k: int = 6) -> float:
    """Of how many questions of a type one search brings all gold articles."""
    index, asked = open_encyclopedia(), questions(type)
    found = [{hit.passage.docid for hit in index.search(each.text, k)} for each in asked]
    return sum({title for title, _ in a.gold} <= hits for a, hits in zip(asked, found, strict=True)) / len(asked)


def test_one_search_brings_what_other_types_need_and_hardly_ever_what_a_bridge_needs() -> None:
    """Measured: 4 % of bridges, 85 % of comparisons, 87 % of strategies, 98 % of claims."""
    assert share("bridge") < 0.1
    assert min(share(type) for type in ("comparison", "strategy", "claim")) > 0.8


def test_it_is_a_retriever_by_name_and_by_seed() -> None:
    best = open_retriever("encyclopedia").invoke("Which physician found the cause of marsh fever?")[0]
    assert (best.metadata["title"], best.metadata["source"]) == ("Ines Halm", "encyclopedia")
    own = next(article for article in encyclopedia(3).articles if article.title not in encyclopedia().by_title)
    assert open_encyclopedia("3").search(own.title, 1)[0].passage.docid == own.title
    assert open_encyclopedia("0").fingerprint == open_encyclopedia().fingerprint != open_encyclopedia("3").fingerprint


def test_a_seed_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match=r"encyclopedia 'x': expected a seed, e\.g\. encyclopedia:3, or none"):
        open_encyclopedia("x")
