"""Retrieval by vectors: what is nearest, in pyserini's layout, with the encoder that made the index."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import faiss
import numpy as np
import pytest
from langchain_core.embeddings import Embeddings

from sottovoce.core.errors import CorpusError, ModelError, RetrievalError, UsageError
from sottovoce.retrievers import Passage, open_retriever
from sottovoce.retrievers.bm25 import BM25Builder
from sottovoce.retrievers.dense import DenseBuilder, DenseIndex, DenseSettings
from sottovoce.retrievers.encoders import DPRQuestions, SentenceEncoder
from sottovoce.retrievers.index import build_index
from tests.retrievers.support import MILL, QUESTION, docids, written
from tests.retrievers.vectors import Words, pyserini_index, tiny_dpr
from tests.tables import each_row

NAMED = DenseSettings(encoder="words")


@pytest.fixture
def index(tmp_path: Path) -> Path:
    build_index(DenseBuilder(NAMED, Words()), written(tmp_path), tmp_path / "index", shard=2)
    return tmp_path / "index"


class Given(Embeddings):
    """Gives what it is told to."""

    def __init__(self, query: list[float], vectors: Sequence[list[float]] = ()) -> None:
        self.query, self.vectors = query, [*vectors]

    def embed_query(self, text: str) -> list[float]:
        return self.query

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.vectors


def test_hits_are_ranked_by_inner_product() -> None:
    encoder = Words()
    query = np.array(encoder.embed_query(QUESTION))
    expected = {each.docid: float(query @ encoder.embed_query(each.contents)) for each in MILL}

    found = DenseIndex.build(MILL, encoder).search(QUESTION, 99)

    assert docids(found) == sorted(expected, key=lambda docid: -expected[docid])
    assert [hit.score for hit in found] == pytest.approx([expected[docid] for docid in docids(found)], abs=1e-6)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 6, 8, 99])
@pytest.mark.parametrize("scores", [[2, 2, 2, 2], [1, 2, 1, 2, 2, 1, 3, 2], [*[4] * 30, *range(9)]])
def test_ties_go_to_the_lower_row_also_where_the_search_ends(scores: list[int], k: int) -> None:
    """FAISS returns any of the rows whose score is that of the last hit."""
    passages = [Passage(str(row), "text") for row in range(len(scores))]

    found = DenseIndex.build(passages, Given([1.0], [[float(score)] for score in scores])).search("?", k)

    ranked = sorted(enumerate(scores), key=lambda passage: (-passage[1], passage[0]))
    assert [(int(hit.passage.docid), hit.score) for hit in found] == ranked[:k]


def test_an_index_on_disk_finds_what_one_in_memory_does(index: Path) -> None:
    kept, made = DenseIndex.open(index, Words()), DenseIndex.build(MILL, Words())

    assert kept.search(QUESTION, 5) == made.search(QUESTION, 5)
    assert (index / "docid").read_text().split() == ["1", "2", "3", "4", "5"]
    assert faiss.read_index(str(index / "index")).ntotal == 5


@pytest.mark.parametrize(
    ("file", "content", "complaint"),
    [
        ("index", None, r"^'.*/index' cannot be read: .*; build it again"),
        ("manifest.json", None, r"^there is no index in "),
        ("passages.sqlite", None, r"^'.*passages\.sqlite' cannot be read"),
        ("index", "IxFI", r"^'.*/index' cannot be read: 'ret == .* failed: read error in .*; build it again"),
    ],
)
def test_a_missing_or_damaged_file_is_one_line(index: Path, file: str, content: str | None, complaint: str) -> None:
    (index / file).unlink()
    if content is not None:
        (index / file).write_text(content)
    with pytest.raises(CorpusError, match=complaint) as refused:
        DenseIndex.open(index, Words())
    assert "\n" not in str(refused.value)


OTHER_NUMBER = r"^the encoder returned \(\d, 1\) numbers for 2 passages, or values that are not finite$"


@each_row(
    ("vectors", "complaint"),
    [
        ([[1.0]], OTHER_NUMBER),
        ([[1.0], [float("nan")]], OTHER_NUMBER),
        ([[1.0], [1.0, 2.0]], r"^the encoder returned vectors of different lengths, or no numbers: "),
    ],
)
def test_vectors_that_are_none_are_refused(vectors: list[list[float]], complaint: str) -> None:
    with pytest.raises(CorpusError, match=complaint):
        DenseIndex.build(MILL[:2], Given([1.0], vectors))


@each_row("vector", [[1.0, 2.0], [], [float("nan")]])
def test_a_query_that_does_not_fit_its_index_is_refused_in_one_line(vector: list[float]) -> None:
    """Showed as an AssertionError of FAISS, and as any order for NaN."""
    index = DenseIndex.build(MILL[:2], Given(vector, [[1.0], [2.0]]), "mill")
    with pytest.raises(RetrievalError, match=r"^the encoder returned \d numbers .* the index 'mill' needs 1: use its"):
        index.search("?", 1)
    with pytest.raises(UsageError, match=r"^k is 0; expected at least 1$"):
        index.search("?", 0)


def test_no_encoder_and_no_folder_are_told(tmp_path: Path, index: Path) -> None:
    with pytest.raises(CorpusError, match=r"^index '.*' has vectors of 64 numbers, but the encoder's have 1$"):
        DenseIndex.open(index, Given([1.0]))
    with pytest.raises(UsageError, match=r"^dense needs the directory of an index"):
        open_retriever("dense")
    with pytest.raises(
        CorpusError, match=r"^there is no encoder in 'words'; expected 'minilm', or a directory with config"
    ):
        open_retriever(f"dense:{index}")
    with pytest.raises(ModelError, match=r"^model 'minilm' is not on this machine yet; get it with"):
        SentenceEncoder().embed_query("mill")


# DPR


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_dpr(tmp_path_factory.mktemp("dpr"), re.findall(r"\w+", " ".join(each.text for each in MILL).lower()))


@pytest.fixture
def pyserini(tmp_path: Path, encoder: Path) -> Path:
    """In another order than the passages."""
    return pyserini_index(tmp_path / "pyserini", DPRQuestions(str(encoder)), MILL[::-1])


def test_an_index_of_pyserini_s_is_searched_with_passages_of_ours(
    tmp_path: Path, pyserini: Path, encoder: Path
) -> None:
    build_index(BM25Builder(), written(tmp_path), tmp_path / "texts")

    found = open_retriever(f"dpr:{pyserini},{encoder},{tmp_path / 'texts'}", k=5).invoke("ana brook harrow mill 1821")

    questions = DPRQuestions(str(encoder))
    query = np.array(questions.embed_query("ana brook harrow mill 1821"))
    expected = {each.docid: float(query @ questions.embed_query(each.contents)) for each in MILL}
    assert [each.metadata["docid"] for each in found] == sorted(expected, key=lambda docid: -expected[docid])
    assert found[0].page_content == MILL[int(found[0].metadata["docid"]) - 1].text


def test_an_index_and_passages_that_do_not_belong_together_are_told(
    tmp_path: Path, pyserini: Path, encoder: Path
) -> None:
    build_index(BM25Builder(), written(tmp_path, MILL[:1]), tmp_path / "texts")
    retriever = open_retriever(f"dpr:{pyserini},{encoder},{tmp_path / 'texts'}", k=5)
    with pytest.raises(
        CorpusError, match=r"^there is no passage '\d': index and passages belong to different corpora$"
    ):
        retriever.invoke(QUESTION)

    (pyserini / "docid").write_text("1\n")
    with pytest.raises(CorpusError, match=r"^index '.*pyserini' has 5 vectors and 1 passages$"):
        open_retriever(f"dpr:{pyserini},{encoder},{tmp_path / 'texts'}")
    with pytest.raises(UsageError, match=r"^dpr needs a pyserini index, a question encoder, and one of our indexes"):
        open_retriever(f"dpr:{pyserini}")
