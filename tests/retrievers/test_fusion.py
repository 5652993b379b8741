"""Several searchers as one."""

from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.core.errors import RetrievalError, UsageError
from sottovoce.retrievers import Hit, Passage, open_retriever
from sottovoce.retrievers.bm25 import BM25Builder
from sottovoce.retrievers.building import build_index
from sottovoce.retrievers.fusion import Hybrid, share, specs
from tests.retrievers.support import Canned, docids, written


def canned(*docids: str, prefix: str = "") -> Canned:
    return Canned([Hit(Passage(prefix + docid, f"text {docid}"), 1.0) for docid in docids], fingerprint=f"{docids}")


def test_what_two_searchers_find_comes_before_what_one_finds_first() -> None:
    found = Hybrid([canned("a", "b", "c"), canned("x", "b", prefix="web-")]).search("q", 3)

    assert docids(found) == ["b", "a", "web-x"]
    assert [hit.score for hit in found] == pytest.approx([2 * share(2), share(1), share(1)])


def test_a_share_is_one_by_sixty_and_the_rank_which_counts_from_one() -> None:
    found = Hybrid([canned("a", "b"), canned("c")]).search("q", 9)

    assert {hit.passage.docid: hit.score for hit in found} == {"a": 1 / 61, "c": 1 / 61, "b": 1 / 62}


def test_of_hits_with_equal_text_the_first_counts_and_the_others_keep_their_rank() -> None:
    repeated = Canned([Hit(Passage(docid, text), 1.0) for docid, text in [("a", "one"), ("b", "one"), ("c", "two")]])

    found = Hybrid([repeated, canned("x")]).search("q", 9)

    assert [(hit.passage.docid, hit.score) for hit in found] == [("a", 1 / 61), ("x", 1 / 61), ("c", 1 / 63)]


def test_each_is_asked_for_more_than_are_wanted() -> None:
    searchers = [canned("a"), canned("b")]
    Hybrid(searchers).search("q", 2)
    assert [each.asked for each in searchers] == [[("q", 6)]] * 2


def test_the_fingerprint_is_known_where_all_are() -> None:
    known, unknown = canned("a"), Canned([])
    assert Hybrid([known, known]).fingerprint and not Hybrid([known, unknown]).fingerprint


def test_fewer_than_two_are_refused() -> None:
    with pytest.raises(UsageError, match=r"^hybrid needs at least two retrievers, e\.g\. "):
        open_retriever("hybrid:")


def test_where_one_fails_the_search_fails_and_says_which() -> None:
    class Down(Canned):
        def search(self, query: str, k: int) -> list[Hit]:
            raise RetrievalError("google answered 502")

    with pytest.raises(RetrievalError, match=r"^google answered 502$"):
        Hybrid([canned("a"), Down([])]).search("q", 1)


NAMES = ["bm25", "dpr", "google", "encyclopedia", "wikipedia"]


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("bm25:a,google", ["bm25:a", "google"]),
        (" google , bm25:my, folder ", ["google", "bm25:my, folder"]),
        ("dpr:i,e,p,bm25:x", ["dpr:i,e,p", "bm25:x"]),
        ("wikipedia:https://x.test/api.php,bm25:google/a,b", ["wikipedia:https://x.test/api.php", "bm25:google/a,b"]),
        ("bm25:a,bm26:b", ["bm25:a", "bm26:b"]),
        ("bm25:a,", ["bm25:a"]),
        ("", []),
    ],
)
def test_commas_within_a_retriever_s_own_words_part_nothing(where: str, found: list[str]) -> None:
    assert specs(where, NAMES) == found


def test_a_folder_with_a_comma_is_joined_with_the_encyclopedia(tmp_path: Path) -> None:
    build_index(BM25Builder(), written(tmp_path), tmp_path / "mills, old")
    found = open_retriever(f"hybrid:bm25:{tmp_path}/mills, old,encyclopedia", k=4).invoke("Who built the mill?")
    assert {each.metadata["source"] for each in found} == {"hybrid"} and found[0].metadata["docid"] in {"1", "2"}
    with pytest.raises(UsageError, match=r"^unknown retriever 'bm26'"):
        open_retriever("hybrid:encyclopedia,bm26:x")
