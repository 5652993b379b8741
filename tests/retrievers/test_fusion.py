"""Several searchers as one."""

from __future__ import annotations

import pytest

from sottovoce.errors import UsageError
from sottovoce.retrievers import Hit, Passage, open_retriever
from sottovoce.retrievers.bm25 import BM25Index
from sottovoce.retrievers.fusion import Hybrid, share
from tests.retrievers.support import MILL, QUESTION, Canned, docids


def canned(*docids: str, prefix: str = "") -> Canned:
    return Canned([Hit(Passage(prefix + docid, f"text {docid}"), 1.0) for docid in docids], fingerprint=f"{docids}")


def test_what_two_searchers_find_comes_before_what_one_finds_first() -> None:
    found = Hybrid([canned("a", "b", "c"), canned("x", "b", prefix="web-")]).search("q", 3)

    assert docids(found) == ["b", "a", "web-x"]
    assert [hit.score for hit in found] == pytest.approx([2 * share(2), share(1), share(1)])


def test_each_is_asked_for_more_than_are_wanted() -> None:
    searchers = [canned("a"), canned("b")]
    Hybrid(searchers).search("q", 2)
    assert [each.asked for each in searchers] == [[("q", 6)]] * 2


def test_joined_with_itself_a_searcher_ranks_as_before() -> None:
    index = BM25Index.build(MILL)
    assert docids(Hybrid([index, index]).search(QUESTION, 4)) == docids(index.search(QUESTION, 4))


def test_the_fingerprint_is_known_where_all_are() -> None:
    known, unknown = canned("a"), Canned([])
    assert Hybrid([known, known]).fingerprint and not Hybrid([known, unknown]).fingerprint


def test_fewer_than_two_are_refused() -> None:
    with pytest.raises(UsageError, match=r"^hybrid joins at least two retrievers: name them"):
        open_retriever("hybrid:")
