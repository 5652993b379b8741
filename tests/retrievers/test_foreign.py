"""Retrievers, vector stores and rerankers of other packages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from sottovoce.core.errors import RetrievalError, UsageError
from sottovoce.retrievers import Hit, Passage, open_retriever, register_retriever
from sottovoce.retrievers.encoders import Reranked, open_reranker
from tests.retrievers.support import MILL, QUESTION, Canned
from tests.retrievers.vectors import Words

HERE = "tests.retrievers.test_foreign"
YEARS = {"1": 1821, "2": 1850, "3": 1850}


def store() -> VectorStore:
    """MILL in LangChain's own store, with years."""
    made = InMemoryVectorStore(Words())
    for each in MILL:
        about: dict[str, Any] = {"title": each.title, "year": YEARS.get(each.docid), "raw": object()}
        made.add_documents([Document(each.contents, id=each.docid, metadata=about)])
    return made


STORE = store()


class Made(BaseRetriever):
    """Knows neither k nor filter."""

    answer: Callable[[str], Any]

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        found: list[Document] = self.answer(query)
        return found


def away(query: str = "") -> list[Document]:
    raise ConnectionError("away\nfor lunch")


FAILING = Made(answer=away)
FIXED = Made(answer=lambda query: [Document(f"text {i}", metadata={"id": i, "even": i % 2 == 0}) for i in range(6)])


class Deaf(InMemoryVectorStore):
    """Ignores a filter, as some stores do."""

    def similarity_search(self, query: str, k: int = 4, **given: Any) -> list[Document]:
        return STORE.similarity_search(query, k=k)


class Later(BaseRetriever):
    """Answers asynchronously alone."""

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        raise NotImplementedError

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(query, id="later")]


class Backwards(BaseDocumentCompressor):
    """Leaves out the first, and turns the others round."""

    def compress_documents(self, documents: Sequence[Document], query: str, callbacks: Any = None) -> list[Document]:
        return [*reversed(documents[1:])]


class Whole(Backwards):
    """Leaves everything as it is."""

    def compress_documents(self, documents: Sequence[Document], query: str, callbacks: Any = None) -> list[Document]:
        return [*documents]


@pytest.mark.parametrize("source", [STORE, STORE.as_retriever(), f"{HERE}:STORE", f"{HERE}:store"])
def test_a_vector_store_is_a_source_as_an_object_and_by_a_dotted_name(source: object) -> None:
    found = open_retriever(source).invoke(QUESTION, k=2)

    expected = STORE.similarity_search(QUESTION, k=2)
    assert [each.metadata["docid"] for each in found] == [each.id for each in expected]
    assert [each.metadata["score"] for each in found] == [1.0, 0.5]
    assert found[0].metadata["title"] == expected[0].metadata["title"] and "raw" not in found[0].metadata


def test_a_store_is_registered_as_it_is() -> None:
    register_retriever("mill-store", STORE)
    assert open_retriever("mill-store").source == "mill-store"


def test_a_filter_is_handed_to_a_store_and_applied_to_others_documents() -> None:
    assert {hit["year"] for hit in _metadata(STORE, {"year": 1850})} == {1850}
    assert len(_metadata(STORE, {"year": "1850"})) == 2
    assert [about["docid"] for about in _metadata(FIXED, {"even": True})] == ["0", "2", "4"]
    own = STORE.as_retriever(search_kwargs={"filter": {"year": 1821}})
    assert _metadata(own, {"title": "Ana Brook"}) == []  # a store's own filter holds too
    assert _metadata(own, {"year": 1850}) == []
    assert [about["year"] for about in _metadata(Deaf(Words()), {"year": 1821})] == [1821]
    with pytest.raises(UsageError, match=r"has the filter .*; expected a mapping or no filter$"):
        _metadata(STORE.as_retriever(search_kwargs={"filter": lambda _: True}), {"year": 1850})


async def test_a_retriever_that_is_only_asynchronous_is_a_source() -> None:
    assert [each.id for each in open_retriever(Later()).invoke("mill")] == ["retriever:later"]
    assert [each.id for each in await open_retriever(Later()).ainvoke("mill")] == ["retriever:later"]


def test_a_number_passes_a_filter_however_it_is_written() -> None:
    passage = Passage("1", "mill", metadata={"x": 1.0, "y": 2, "z": True})

    assert all(passage.passes(filter) for filter in ({"x": 1}, {"x": "1"}, {"y": 2.0}, {"z": True}))
    assert not any(passage.passes(filter) for filter in ({"x": 1.5}, {"y": 1}, {"z": 1}))


def test_a_retriever_that_returns_no_documents_fails_in_one_line() -> None:
    with pytest.raises(RetrievalError, match=r"^retriever 'retriever' failed: AttributeError: 'str' object has no"):
        open_retriever(Made(answer=lambda query: ["text"])).invoke("mill")


def test_a_retriever_of_ours_that_is_given_as_an_object_keeps_its_filter() -> None:
    own = open_retriever(STORE)
    own.filter = {"year": 1850}
    assert {about["year"] for about in _metadata(own, {})} == {1850}
    assert len(_metadata(own, {"docid": "2"})) == 1 and _metadata(own, {"year": 1821}) == []


def _metadata(source: object, filter: dict[str, Any]) -> list[dict[str, Any]]:
    return [each.metadata for each in open_retriever(source).invoke(QUESTION, filter=filter)]


def test_a_failure_of_a_foreign_retriever_is_one_line() -> None:
    with pytest.raises(RetrievalError, match=r"^retriever '.*:FAILING' failed: ConnectionError: away$"):
        open_retriever(f"{HERE}:FAILING").invoke("a")


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("no.such:thing", r"^'no\.such:thing' cannot be imported as a retriever: ModuleNotFoundError: No module named"),
        (f"{HERE}:nothing", r"cannot be imported as a retriever: AttributeError: "),
        (f"{HERE}:HERE", r"^'.*:HERE' is of type str; expected a LangChain retriever .* or vector store, or a"),
        (Backwards(), r"^'retriever' is of type Backwards; expected"),
        ("wikipdia:de", r"^unknown retriever 'wikipdia'; did you mean 'wikipedia'"),
        (7, r"^'retriever' is of type int; expected"),
    ],
)
def test_what_is_no_retriever_is_refused_in_one_line(source: object, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as refused:
        open_retriever(source)
    assert "\n" not in str(refused.value)


# Reranking


def test_a_document_compressor_reranks_by_its_dotted_name() -> None:
    hits = [Hit(Passage(str(i), f"text {i}"), 9.0 - i) for i in range(4)]
    reranked = Reranked(Canned(hits), open_reranker(f"{HERE}:Backwards"))
    assert [(hit.passage.docid, hit.score) for hit in reranked.search("a", 2)] == [("3", 1.0), ("2", 0.5)]


def test_what_is_no_reranker_is_refused_in_one_line() -> None:
    with pytest.raises(UsageError, match=r"is of type str; expected a LangChain document compressor$"):
        open_reranker(f"{HERE}:HERE")
    with pytest.raises(UsageError, match=r"^'.*:away' cannot be made: ConnectionError: away$"):
        open_reranker(f"{HERE}:away")
