"""Lucene through pyserini, in this process's Java: that it starts, what it finds, and that BM25 agrees with it."""

from __future__ import annotations

import json
import random
import shutil
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sottovoce.core.errors import CorpusError, UsageError
from sottovoce.retrievers import Passage, jvm, open_retriever
from sottovoce.retrievers.bm25 import BM25Index
from sottovoce.retrievers.building import build_index
from sottovoce.retrievers.lucene import LuceneBuilder, LuceneIndex, LuceneSettings
from tests.retrievers.support import MILL, QUESTION, docids, written


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lucene")
    build_index(LuceneBuilder(), written(folder), folder / "index", shard=2)
    return folder / "index"


@pytest.mark.parametrize("query", [QUESTION, "O'Neill's market", "honey bee", "mills", "1821"])
def test_on_short_passages_scores_are_those_of_bm25(index: Path, query: str) -> None:
    lucene, bm25 = LuceneIndex.open(index).search(query, 5), BM25Index.build(MILL).search(query, 5)

    assert [hit.passage for hit in lucene] == [hit.passage for hit in bm25]
    scores = [hit.score for hit in bm25]
    assert [hit.score for hit in lucene] == pytest.approx(scores, abs=1e-4)  # Anserini rounds; lengths < 40 are exact


def test_on_long_passages_bm25_finds_nearly_what_lucene_does(tmp_path: Path) -> None:
    draw = random.Random(0)
    words = [f"w{draw.randrange(10**6)}x" for _ in range(400)]
    made = [Passage(str(n), " ".join(draw.choices(words, k=draw.randint(60, 160)))) for n in range(200)]
    build_index(LuceneBuilder(), written(tmp_path, made), tmp_path / "index")
    lucene, bm25 = LuceneIndex.open(tmp_path / "index"), BM25Index.build(made)

    queries = [" ".join(draw.choices(words, k=6)) for _ in range(40)]
    found = [(docids(lucene.search(query, 6)), docids(bm25.search(query, 6))) for query in queries]

    shared = sum(len({*one} & {*other}) for one, other in found) / sum(len(one) for one, _ in found)
    assert shared >= 0.9  # one-byte lengths swap neighbours


@pytest.mark.parametrize("query", ["the of and", "xylophone", "?!"])
def test_what_shares_no_term_with_the_query_is_not_found(index: Path, query: str) -> None:
    assert LuceneIndex.open(index).search(query, 3) == []


def test_signs_of_lucene_s_query_language_are_text(index: Path) -> None:
    assert docids(LuceneIndex.open(index).search("(honey] AND ~~ title:bees^2", 1)) == ["5"]


def test_a_query_may_have_more_words_than_lucene_takes_by_itself(index: Path) -> None:
    """Lucene refuses more than 1,024; a query may be an agent's whole reply."""
    assert docids(LuceneIndex.open(index).search(" ".join(f"w{n}" for n in range(3000)) + " honey", 2)) == ["5"]


def test_half_a_surrogate_pair_in_a_query_is_no_reason_to_fail(index: Path) -> None:
    assert open_retriever(f"lucene:{index}").invoke("honey \ud83d")[0].metadata["docid"] == "5"


def test_threads_that_search_at_once_get_what_each_asked_for(index: Path) -> None:
    """Four of 3,000 searches got the passages of another thread's, when threads called Java by themselves."""
    lucene, queries = LuceneIndex.open(index), [*QUESTION.split(), "honey bees", "engineer", "market on Mondays"]
    expected, before = [lucene.search(query, 3) for query in queries], sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as threads:
            found = [*threads.map(lambda query: lucene.search(query, 3), 60 * queries)]
    finally:
        sys.setswitchinterval(before)
    assert found == 60 * expected


def test_java_keeps_nothing_of_threads_that_are_over(index: Path) -> None:
    lucene = LuceneIndex.open(index)
    import jnius  # Java runs now

    count = jvm.alone(lambda: int(jnius.autoclass("java.lang.Thread").activeCount()))
    before = count()
    for _ in range(20):
        thread = threading.Thread(target=lucene.search, args=("honey", 1))
        thread.start()
        thread.join()
    assert count() == before


def test_k1_and_b_of_the_manifest_are_applied(tmp_path: Path) -> None:
    build_index(LuceneBuilder(LuceneSettings(k1=0, b=0)), written(tmp_path), tmp_path / "index")
    one, *rest = LuceneIndex.open(tmp_path / "index").search("tamsin", 5)
    # With k1 = 0 all that holds the word is equal; Anserini tells equal ones apart by 1e-6.
    assert [hit.score for hit in rest] == [pytest.approx(one.score, abs=1e-5)]


def test_an_index_of_anserini_s_own_needs_no_manifest(index: Path) -> None:
    assert open_retriever(f"lucene:{index / 'lucene'}").invoke("honey")[0].metadata["docid"] == "5"


def test_what_cannot_be_opened_is_told_in_one_line(index: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^lucene needs the directory of an index"):
        open_retriever("lucene")
    with pytest.raises(
        CorpusError, match=r"^there is no Lucene index in '.*'; build it again with `.*` --retriever lucene$"
    ):
        open_retriever(f"lucene:{tmp_path}")
    shutil.copytree(index, tmp_path / "other")
    build_index(LuceneBuilder(), written(tmp_path, MILL[:2]), tmp_path / "two")
    shutil.rmtree(tmp_path / "other" / "lucene")
    (tmp_path / "two" / "lucene").rename(tmp_path / "other" / "lucene")
    with pytest.raises(CorpusError, match=r"^Lucene index '.*' has 2 passages, not 5; build it again"):
        open_retriever(f"lucene:{tmp_path / 'other'}")
    (tmp_path / "segments_1").write_bytes(b"no segments")
    with pytest.raises(CorpusError, match=r"^Lucene index '.*' cannot be read: .+") as told:
        open_retriever(f"lucene:{tmp_path}")
    assert "\n" not in str(told.value)
    manifest = json.loads((index / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps({**manifest, "settings": {"analyzer": "german"}}))
    with pytest.raises(
        CorpusError, match=r"^index '.*' was built with analyzer 'german', not 'english'; build it again"
    ):
        open_retriever(f"lucene:{tmp_path}")
