"""The contract that every retriever keeps, and what opening one by name costs."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from langchain_tests.integration_tests import RetrieversIntegrationTests

from sottovoce import retrievers
from sottovoce.core.errors import UsageError
from sottovoce.retrievers import Hit, Passage, PassageRetriever, open_retriever
from sottovoce.retrievers.bm25 import BM25Index
from sottovoce.retrievers.encoders import Reranked, open_reranker
from sottovoce.retrievers.pool import pool_of
from tests.retrievers import test_foreign, test_google
from tests.retrievers.services import serving
from tests.retrievers.support import MILL, QUESTION, Canned


@pytest.fixture(scope="module", params=["bm25", "langchain store", "google"])
def source(request: pytest.FixtureRequest) -> Iterator[PassageRetriever]:
    with serving(test_google.FOUND) as service:
        makers: dict[str, Callable[[], PassageRetriever]] = {
            "bm25": lambda: BM25Index.build(MILL),
            "langchain store": lambda: open_retriever(test_foreign.STORE),
            "google": lambda: test_google.google(service),
        }
        yield makers[request.param]()


class TestStandard(RetrieversIntegrationTests):
    """langchain-tests' suite."""

    @pytest.fixture(autouse=True)
    def _over(self, source: PassageRetriever) -> None:
        self.source = source

    @property
    def retriever_constructor(self) -> Any:  # Any: the suite's own type is that of a class
        return partial(open_retriever, self.source)

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {}

    @property
    def retriever_query_example(self) -> str:
        return QUESTION


def canned(n: int = 3) -> Canned:
    return Canned([Hit(Passage(str(i), f"text {i}", f"title {i}"), 10.0 - i) for i in range(n)])


def test_a_document_tells_where_it_comes_from_and_how_it_was_found() -> None:
    found = BM25Index.build(MILL, source="mills").invoke("river Tamsin", k=1)[0]

    assert (found.id, found.page_content) == ("mills:3", MILL[2].text)
    score = found.metadata.pop("score")
    assert type(score) is float and score > 0
    assert found.metadata == {
        "docid": "3",
        "title": "Tamsin",
        "url": "https://x.test/tamsin",
        "source": "mills",
        "rank": 1,
        "query": "river Tamsin",
        "k": 1,
        "metadata": {},
    }


async def test_k_is_taken_in_every_way_of_asking() -> None:
    source = canned()
    retriever = open_retriever(source, k=2)

    given = [
        retriever.invoke("a"),
        retriever.invoke("b", k=1),
        await retriever.ainvoke("c"),
        await retriever.ainvoke("d", k=3),
    ]

    assert [len(each) for each in given] == [2, 1, 2, 3]
    assert source.asked == [("a", 2), ("b", 1), ("c", 2), ("d", 3)]


def test_a_blank_query_finds_nothing_and_asks_nobody() -> None:
    retriever = canned()
    assert retriever.invoke(" \n") == [] and retriever.asked == []


def test_a_k_below_one_is_refused_in_one_line() -> None:
    with pytest.raises(UsageError, match=r"^k is 0: expected greater than or equal to 1$"):
        open_retriever(canned(), k=0)
    with pytest.raises(UsageError, match=r"^k is 0: expected at least 1 passage$"):
        canned().invoke("a", k=0)


def test_importing_the_retrievers_loads_no_index_library_no_torch_and_no_java() -> None:
    heavy = {
        "torch",
        "sentence_transformers",
        "transformers",
        "faiss",
        "jnius",
        "serpapi",
        "bm25s",
        "Stemmer",
        "numpy",
        "pyserini",
        "langgraph",
    }
    names = ", ".join(f"sottovoce.retrievers.{each.name}" for each in pkgutil.iter_modules(retrievers.__path__))
    code = f"import sys, {names}; print(sorted({heavy} & set(sys.modules)))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


DATED = [
    Passage("1", "The old mill stands by the river.", "Mill", metadata={"year": 1821, "town": "Harrow"}),
    Passage("2", "The new mill stands by the river too, a mill of steel.", "Mill", metadata={"year": 1902}),
    Passage("3", "A mill on a hill.", "Mill"),
]


@pytest.mark.parametrize("year", [1821, "1821"])
def test_a_filter_leaves_passages_whose_metadata_have_its_values(year: object) -> None:
    retriever = open_retriever(BM25Index.build(DATED), k=1)

    assert [each.metadata["docid"] for each in retriever.invoke("new mill of steel", filter={"year": year})] == ["1"]
    assert retriever.invoke("mill", filter={"year": year, "town": "Fenwick"}) == []
    assert retriever.invoke("mill", k=9, filter={"title": "Mill", "docid": "3"})[0].metadata["docid"] == "3"


@pytest.mark.parametrize("reranked", [False, True])
async def test_a_filter_of_the_retriever_holds_beside_that_of_a_query(reranked: bool) -> None:
    retriever: PassageRetriever = BM25Index.build(DATED)
    retriever.filter = {"town": "Harrow"}
    retriever = Reranked(retriever, open_reranker(f"{test_foreign.HERE}:Whole")) if reranked else retriever
    assert len(retriever.invoke("mill")) == len(await retriever.ainvoke("mill")) == 1
    assert len(retriever.invoke("mill", filter={"year": 1821})) == 1
    assert retriever.invoke("mill", filter={"docid": "2"}) == retriever.invoke("mill", filter={"town": "Fenwick"}) == []


def test_more_is_searched_for_until_enough_passes_a_filter() -> None:
    retriever = Canned([Hit(Passage(str(i), "text", metadata={"even": i % 10 == 0}), 1.0) for i in range(100)])

    found = retriever.invoke("a", k=4, filter={"even": True})

    assert [each.metadata["docid"] for each in found] == ["0", "10", "20", "30"]
    assert retriever.asked == [("a", 16), ("a", 64)]


def test_metadata_stand_in_the_document_and_none_replaces_what_a_hit_is_known_by() -> None:
    passage = Passage("1", "text", "title", metadata={"year": 1821, "rank": 99, "source": "elsewhere"})
    (found,) = Canned([Hit(passage, 1.0)]).invoke("a")
    assert (found.metadata["year"], found.metadata["rank"], found.metadata["source"]) == (1821, 1, "canned")
    assert found.metadata["metadata"] == passage.metadata
    (piece,) = pool_of([found]).values()
    assert piece["origins"][0]["metadata"] == passage.metadata
