"""Retrievers, vector stores and rerankers of other packages, and run files of other systems."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from transformers import BertConfig, BertForSequenceClassification

from sottovoce.core.errors import CorpusError, ModelError, RetrievalError, UsageError
from sottovoce.retrievers import Hit, Passage, PassageRetriever, open_retriever
from sottovoce.retrievers.bm25 import BM25Builder, BM25Index
from sottovoce.retrievers.building import build_index
from sottovoce.retrievers.registry import open_searcher, register_retriever
from sottovoce.retrievers.reranking import CrossEncoder, Reranked, open_reranker
from sottovoce.retrievers.trec import qrels_text, rankings_text, read_qrels, read_rankings
from tests.retrievers.sentences import tiny_encoder
from tests.retrievers.support import MILL, QUESTION, Canned, docids, written
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


class Failing(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        raise ConnectionError("away\nfor lunch")


class Fixed(BaseRetriever):
    """Knows neither k nor filter."""

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return [Document(f"text {i}", metadata={"id": i, "even": i % 2 == 0}) for i in range(6)]


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


class Odd(Failing):
    """Returns no documents, and has an attribute that a `PassageRetriever` has too."""

    searcher: str = "mine"

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return ["text"]  # type: ignore[list-item]


def failing() -> None:
    raise ConnectionError("away")


class Backwards(BaseDocumentCompressor):
    """Leaves out the first, and turns the others round."""

    def compress_documents(self, documents: Sequence[Document], query: str, callbacks: Any = None) -> list[Document]:
        return [*reversed(documents[1:])]


@pytest.mark.parametrize("source", [STORE, STORE.as_retriever(), f"{HERE}:STORE", f"{HERE}:store"])
def test_a_vector_store_is_a_source_as_an_object_and_by_a_dotted_name(source: object) -> None:
    found = open_retriever(source).invoke(QUESTION, k=2)

    expected = STORE.similarity_search(QUESTION, k=2)
    assert [each.metadata["docid"] for each in found] == [each.id for each in expected]
    assert [each.metadata["score"] for each in found] == [1.0, 0.5]
    assert found[0].metadata["title"] == expected[0].metadata["title"] and "raw" not in found[0].metadata


def test_a_store_is_registered_as_it_is_and_joined_with_others() -> None:
    register_retriever("mill-store", STORE)
    found = open_searcher(f"hybrid:mill-store,{HERE}:Fixed,encyclopedia").search("honey", 3)
    assert len(found) == 3
    assert open_searcher("mill-store").source == "mill-store"


def test_a_filter_is_handed_to_a_store_and_applied_to_others_documents() -> None:
    assert {hit["year"] for hit in _metadata(STORE, {"year": 1850})} == {1850}
    assert len(_metadata(STORE, {"year": "1850"})) == 2
    assert [about["docid"] for about in _metadata(Fixed(), {"even": True})] == ["0", "2", "4"]
    own = STORE.as_retriever(search_kwargs={"filter": {"year": 1821}})
    assert _metadata(own, {"title": "Ana Brook"}) == []  # a store's own filter holds too
    assert _metadata(own, {"year": 1850}) == []
    assert [about["year"] for about in _metadata(Deaf(Words()), {"year": 1821})] == [1821]
    with pytest.raises(UsageError, match=r"has a filter of its own, .*; expected a mapping or none$"):
        _metadata(STORE.as_retriever(search_kwargs={"filter": lambda _: True}), {"year": 1850})


async def test_a_retriever_that_is_only_asynchronous_is_a_source() -> None:
    assert [each.id for each in open_retriever(Later()).invoke("mill")] == ["retriever:later"]
    assert [each.id for each in await open_retriever(Later()).ainvoke("mill")] == ["retriever:later"]


def test_a_retriever_that_returns_no_documents_fails_in_one_line() -> None:
    with pytest.raises(RetrievalError, match=r"^retriever 'retriever' failed: AttributeError: 'str' object has no"):
        open_retriever(Odd()).invoke("mill")


def test_a_retriever_of_ours_that_is_given_as_an_object_keeps_its_filter() -> None:
    own = PassageRetriever(searcher=open_searcher(STORE), filter={"year": 1850})
    assert {about["year"] for about in _metadata(own, {})} == {1850}
    assert len(_metadata(own, {"docid": "2"})) == 1 and _metadata(own, {"year": 1821}) == []


def _metadata(source: object, filter: dict[str, Any]) -> list[dict[str, Any]]:
    return [each.metadata for each in open_retriever(source).invoke(QUESTION, filter=filter)]


def test_a_failure_of_a_foreign_retriever_is_one_line() -> None:
    with pytest.raises(RetrievalError, match=r"^retriever '.*:Failing' failed: ConnectionError: away$"):
        open_retriever(f"{HERE}:Failing").invoke("a")


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("no.such:thing", r"^'no\.such:thing' cannot be imported as a retriever: ModuleNotFoundError: No module named"),
        (f"{HERE}:nothing", r"cannot be imported as a retriever: AttributeError: "),
        (f"{HERE}:HERE", r"^'.*:HERE' is of type str; expected a LangChain retriever or vector store, a searcher, or"),
        ("wikipdia:de", r"^unknown retriever 'wikipdia'; choose from: "),
        (7, r"^'retriever' is of type int; expected"),
    ],
)
def test_what_is_no_retriever_is_refused_in_one_line(source: object, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as refused:
        open_retriever(source)
    assert "\n" not in str(refused.value)


# Reranking


def cross_encoder(folder: Path, outputs: int = 1) -> Path:
    """A tiny one with random weights."""
    tiny_encoder(folder, modules=())
    torch.manual_seed(0)
    config = BertConfig.from_pretrained(folder, num_labels=outputs)
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder


def test_a_cross_encoder_scores_the_first_hits_again(tmp_path: Path) -> None:
    encoder, index = CrossEncoder(str(cross_encoder(tmp_path)), device="cpu"), BM25Index.build(MILL)

    found = Reranked(index, encoder, depth=3).search(QUESTION, 2)

    first = index.search(QUESTION, 3)
    alone = {hit.passage.docid: encoder.rerank(QUESTION, [hit])[0].score for hit in first}
    assert docids(found) == sorted(alone, key=lambda docid: -alone[docid])[:2]
    assert [hit.score for hit in found] == pytest.approx([alone[docid] for docid in docids(found)], abs=1e-5)
    assert Reranked(index, encoder).search("zzz", 2) == []


@pytest.mark.slow  # importing the library takes seven seconds
@pytest.mark.filterwarnings("ignore")  # its own
def test_its_scores_are_those_of_sentence_transformers(tmp_path: Path) -> None:
    from sentence_transformers import CrossEncoder as Reference

    folder = str(cross_encoder(tmp_path))
    reference = Reference(folder, device="cpu", activation_fn=torch.nn.Identity())
    expected = reference.predict([(QUESTION, each.contents) for each in MILL])
    found = CrossEncoder(folder, device="cpu").rerank(QUESTION, [Hit(each, 0.0) for each in MILL])
    assert {hit.passage.docid: hit.score for hit in found} == pytest.approx(
        dict(zip([each.docid for each in MILL], map(float, expected), strict=True)), abs=1e-5
    )


def test_a_document_compressor_reranks_by_its_dotted_name() -> None:
    hits = [Hit(Passage(str(i), f"text {i}"), 9.0 - i) for i in range(4)]
    reranked = Reranked(Canned(hits), open_reranker(f"{HERE}:Backwards"))
    assert [(hit.passage.docid, hit.score) for hit in reranked.search("a", 2)] == [("3", 1.0), ("2", 0.5)]


def test_what_is_no_reranker_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is of type str; expected a LangChain document compressor$"):
        open_reranker(f"{HERE}:HERE")
    with pytest.raises(ModelError, match=r"has 2 outputs; expected one, a score$"):
        CrossEncoder(str(cross_encoder(tmp_path, outputs=2))).rerank("a", [Hit(MILL[0], 1.0)])
    with pytest.raises(CorpusError, match=r"^there is no encoder in 'nowhere'"):
        CrossEncoder("nowhere")
    with pytest.raises(UsageError, match=r"^'.*:failing' cannot be made: ConnectionError: away$"):
        open_reranker(f"{HERE}:failing")
    (tmp_path / "config_sentence_transformers.json").write_text('{"default_prompt_name": "query"}')
    with pytest.raises(ModelError, match=r"has the default prompt 'query'; expected a cross-encoder without prompts"):
        CrossEncoder(str(tmp_path))
    (tmp_path / "modules.json").write_text('[{"type": "x.Transformer"}, {"type": "x.LogitScore"}]')
    with pytest.raises(ModelError, match=r"has the modules Transformer, LogitScore; expected only a Transformer"):
        CrossEncoder(str(tmp_path))


# TREC


def test_judgments_and_rankings_are_read_as_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "x.qrels").write_text(qrels_text({"q 1": {"Harrow mill": 2, "d2": 0}}))
    (tmp_path / "x.trec").write_text(rankings_text({"q1": ["d2", "Harrow mill"]}, "a tag"))

    assert (tmp_path / "x.qrels").read_text() == "q_1 0 Harrow_mill 2\nq_1 0 d2 0\n"
    assert (tmp_path / "x.trec").read_text().splitlines()[1] == "q1 Q0 Harrow_mill 2 0.500000000 a_tag"
    assert read_qrels(tmp_path / "x.qrels") == {"q_1": {"Harrow_mill": 2, "d2": 0}}
    assert read_rankings(tmp_path / "x.trec") == {"q1": [("d2", 1.0), ("Harrow_mill", 0.5)]}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("q1 0 d1", r"^line 1 of '.*' is 'q1 0 d1'; expected qid 0 docid rel$"),
        ("q1 0 d1 1 x", r"expected qid 0 docid rel$"),
        ("\nq1 0 d1 x", r"^line 2 .*relevance"),
        ("q1 0 d1 1.5", r"relevance '1.5'; expected a whole number of at most 9 digits$"),
        ("q1 0 d1 1" + 5000 * "0", r"relevance '10{59}'; expected"),
        ("q1\t0\td1\t1\r\nq1 0 d1 0", r"^line 2 of '.*' judges passage 'd1' of question 'q1' again; expected one line"),
    ],
)
def test_a_line_that_is_no_judgment_is_told(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "x.qrels").write_text(text)
    with pytest.raises(UsageError, match=complaint):
        read_qrels(tmp_path / "x.qrels")
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_rankings(tmp_path / "y.trec")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("q1 Q0 d2 2 nan x", "has rank '2' and score 'nan'; expected numbers"),
        ("q1 Q0 d2 1.0 3 x", "has rank '1.0' and score '3'; expected numbers"),
        ("q1 Q0 d1 2 1 x", "lists passage 'd1' of question 'q1' again; expected one line for each"),
    ],
)
def test_a_line_that_ranks_nothing_is_told(tmp_path: Path, line: str, complaint: str) -> None:
    (tmp_path / "x.trec").write_text(f"q1 Q0 d1 1 3 x\r\n{line}\r\n")
    with pytest.raises(UsageError, match=f"^line 2 of '.*' {complaint}$"):
        read_rankings(tmp_path / "x.trec")


def test_scores_of_a_long_run_file_keep_its_order() -> None:
    """Six digits made equal scores from rank 1,400 on, and trec_eval sorts by score alone."""
    lines = rankings_text({"q": [str(place) for place in range(5000)]}, "x").splitlines()
    assert len({line.split()[4] for line in lines}) == 5000


def test_a_run_file_is_a_source_for_its_own_topics(tmp_path: Path) -> None:
    build_index(BM25Builder(), written(tmp_path), tmp_path / "index")
    (tmp_path / "other.trec").write_text("t1 Q0 5 2 1.5 x\nt1 Q0 3 1 9.5 x\nt2 Q0 99 1 1 x\n")
    (tmp_path / "topics.tsv").write_text("t1\tWho built it?\nt2\tWhere?\n")

    retriever = open_retriever(f"trec:{tmp_path / 'other.trec'},{tmp_path / 'topics.tsv'},{tmp_path / 'index'}")

    assert [each.id for each in retriever.invoke("Who  built it?")] == ["other:3", "other:5"]
    with pytest.raises(CorpusError, match=r"^the topics of 'other' have no query 'Why\?'$"):
        retriever.invoke("Why?")
    with pytest.raises(CorpusError, match=r"^there is no passage '99': run file and index"):
        retriever.invoke("Where?")
