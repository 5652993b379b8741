"""BM25: what it ranks, in which order, and what it never finds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core.errors import CorpusError, UsageError
from sottovoce.retrievers import Passage
from sottovoce.retrievers.bm25 import BM25Index, BM25Settings, best
from tests.retrievers.support import MILL, QUESTION, docids


@pytest.fixture(scope="module")
def index() -> BM25Index:
    return BM25Index.build(MILL)


def lucene(tf: int, df: int, n: int, length: int, average: float, k1: float = 0.9, b: float = 0.4) -> float:
    """Lucene's BM25 of one term, without its lossy lengths."""
    idf = np.log(1 + (n - df + 0.5) / (df + 0.5))
    return float(idf * tf / (tf + k1 * (1 - b + b * length / average)))


def test_a_score_is_lucene_s_formula() -> None:
    index = BM25Index.build([Passage("a", "moss moss stone"), Passage("b", "stone"), Passage("c", "fern fern")])

    (first,) = index.search("moss", 3)

    assert first.passage.docid == "a"
    assert first.score == pytest.approx(lucene(tf=2, df=1, n=3, length=3, average=2), rel=1e-6)


def test_the_passage_that_answers_comes_first(index: BM25Index) -> None:
    assert docids(index.search(QUESTION, 1)) == ["1"]
    assert docids(index.search("honey bee", 5)) == ["5"]
    assert len(index.search(QUESTION, 1000)) == 4
    assert docids(BM25Index.build([Passage("a", "Text.", "Zarathustra")]).search("zarathustra", 1)) == ["a"]


@pytest.mark.parametrize("query", ["xylophone", "the of and", "?!", "¿ … —"])
def test_what_shares_no_term_with_the_query_is_not_found(index: BM25Index, query: str) -> None:
    assert index.search(query, 3) == []


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), max_size=30), st.integers(1, 40))
def test_the_best_rows_are_a_stable_sort_s(scores: list[float], k: int) -> None:
    expected = [row for row in sorted(range(len(scores)), key=lambda row: -scores[row]) if scores[row] > 0][:k]
    assert best(np.array(scores, dtype=np.float32), k) == expected


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The Mills of Harrow", ["mill", "harrow"]),
        ("Fenwick's market", ["fenwick", "market"]),
        ("Fenwick’s market", ["fenwick", "market"]),
        ("O'Neill didn't", ["o'neil", "didn't"]),
        ("in 1,821.5 or 7", ["1,821.5", "7"]),
        ("Cafe\u0301 CAFÉ Straße", ["cafe", "cafe", "strass"]),
        ("東京都の茶", ["東京", "京都", "都の", "の茶", "東", "京", "都", "茶"]),
        ("ไทย 한국어", ["ไท", "ทย", "한국", "국어"]),
        ("ﬁne", ["fine"]),
    ],
)
def test_text_becomes_terms_as_lucene_makes_them(text: str, terms: list[str]) -> None:
    assert BM25Settings().terms([text], numbered=False) == [terms]
    plain = BM25Settings(stopwords="none", stemmer="none")
    assert plain.terms(["the mills"], numbered=False) == [["the", "mills"]]
    german = BM25Settings(stemmer="german")  # it reads accents itself
    assert german.terms(["Häuser"], numbered=False) == [["haus"]]


@pytest.mark.parametrize("stemmer", ["porter", "none", "german", "french"])
@pytest.mark.parametrize(
    ("text", "query"),
    [
        *(("Zürich lies on a lake.", "Zurich"), ("Zurich lies on a lake.", "Zürich"), ("東京の天気は晴れです", "天気")),
        *(("这座磨坊建于一八二一年", "磨坊"), ("お茶をどうぞ", "茶"), ("โรงสีสร้างขึ้นในปี", "โรงสี"), ("서울에서", "서울")),
    ],
)
def test_words_are_found_without_their_accents_and_within_text_without_spaces(
    text: str, query: str, stemmer: str
) -> None:
    """Seen: a Chinese sentence was one word, so that nothing was found and nothing said why."""
    index = BM25Index.build([Passage("other", "磨き Lausanne"), Passage("this", text)], BM25Settings(stemmer=stemmer))

    assert docids(index.search(query, 1)) == ["this"]


def test_an_unknown_stemmer_and_a_corpus_that_cannot_be_indexed_are_refused() -> None:
    with pytest.raises(UsageError, match=r"^unknown stemmer 'portter'; did you mean 'porter'"):
        BM25Settings(stemmer="portter")
    for passages in ([], [Passage("1", "the")]):
        with pytest.raises(CorpusError, match=r"^nothing to index: the corpus has no passages, or only stop words$"):
            BM25Index.build(passages)


def test_threads_find_what_one_finds(index: BM25Index) -> None:
    expected = docids(index.search(QUESTION, 4))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: docids(index.search(QUESTION, 4)), range(80)))
    assert found == [expected] * 80
