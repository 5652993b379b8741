"""The evidence pool: merged in any order it is the same, and what is shown of it keeps its numbers."""

from __future__ import annotations

import json
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document

from sottovoce.retrievers import Hit, Passage
from sottovoce.retrievers.passage import key_of
from sottovoce.retrievers.pool import Pool, contained, fused, merged, numbered, pool_of
from tests.retrievers.support import Canned
from tests.tables import each_row

LONG = "The mill of Harrow was built by Ana Brook in 1821 and it stands on the river Tamsin to this day."
SNIPPET = "the mill of Harrow was built by Ana Brook in 1821"


def found(source: str, *texts: str, query: str = "mill") -> list[Document]:
    """What a retriever of that name finds, in this order."""
    hits = [Hit(Passage(key_of(text)[:4], text, f"about {text[:3]}"), 1.0 / n) for n, text in enumerate(texts, 1)]
    return Canned(hits, source).invoke(query, k=99)


TEXTS = st.sampled_from(["moss", "Moss", "moss  ", "stone", "fern and moss on stone", "a fern", LONG, SNIPPET])
UPDATES = st.builds(
    lambda source, texts, query, agent, round: pool_of(found(source, *texts, query=query), agent, round),
    st.sampled_from(["wiki", "web"]),
    st.lists(TEXTS, max_size=4),
    st.sampled_from(["mill", "river"]),
    st.sampled_from(["", "agent_1"]),
    st.integers(0, 1),
)


@given(st.lists(UPDATES, max_size=5).flatmap(lambda pools: st.tuples(st.just(pools), st.permutations(pools))))
def test_the_order_of_updates_changes_neither_the_pool_nor_what_is_shown(pools: tuple[list[Pool], list[Pool]]) -> None:
    empty: Pool = {}
    one, other = (reduce(merged, order, empty) for order in pools)

    assert json.dumps(one) == json.dumps(other)
    assert fused(one) == fused(other)


@given(UPDATES, UPDATES, UPDATES)
def test_merging_is_associative_and_says_nothing_twice(a: Pool, b: Pool, c: Pool) -> None:
    assert merged(merged(a, b), c) == merged(a, merged(b, c))
    assert merged(a, a) == a and merged(merged(a, b), b) == merged(a, b)


@given(st.lists(UPDATES, max_size=4))
def test_every_piece_is_shown_once_or_stands_in_one_that_is(pools: list[Pool]) -> None:
    empty: Pool = {}
    pool = reduce(merged, pools, empty)
    covered = [key for each in fused(pool) for key in (each.key, *each.also)]
    assert sorted(covered) == sorted(pool)


def test_texts_that_differ_in_letters_and_spacing_are_one_with_both_origins() -> None:
    pool = merged(pool_of(found("wiki", "The  Mill"), "agent_1"), pool_of(found("web", "the mill"), "agent_2", 1))

    (evidence,) = pool.values()
    origins = {(each["source"], each["agent"], each["round"]) for each in evidence["origins"]}
    assert origins == {("web", "agent_2", 1), ("wiki", "agent_1", 0)}


def test_a_title_wins_over_none() -> None:
    untitled = Document("moss", metadata={**found("web", "moss")[0].metadata, "title": ""})
    assert merged(pool_of([untitled]), pool_of(found("wiki", "moss")))[key_of("moss")]["title"] == "about mos"


def test_a_snippet_is_folded_into_the_passage_that_holds_it_and_lifts_it() -> None:
    pool = merged(pool_of(found("wiki", "Bees make honey.", LONG)), pool_of(found("web", SNIPPET)))

    first, second = fused(pool)

    assert (first.key, first.also) == (key_of(LONG), (key_of(SNIPPET),))
    assert first.score == pytest.approx(1 / 62 + 1 / 61) and second.score == pytest.approx(1 / 61)


@each_row(
    ("whole", "snippet"),
    [
        (LONG, "… built by Ana Brook, in 1821..."),  # three grams of eight were strange to it
        ("这座磨坊由安娜建于一八二一年。", "磨坊由安娜建于一八"),
    ],
)
def test_a_snippet_with_signs_or_without_spaces_is_folded_too(whole: str, snippet: str) -> None:
    pool = merged(pool_of(found("wiki", whole)), pool_of(found("web", snippet)))
    assert [each.also for each in fused(pool)] == [(key_of(snippet),)]


@given(st.lists(UPDATES, max_size=3), st.lists(UPDATES, max_size=3))
def test_numbers_are_frozen_whatever_is_found_later(earlier: list[Pool], later: list[Pool]) -> None:
    empty: Pool = {}
    pool = reduce(merged, earlier, empty)
    before, more = numbered(fused(pool)), reduce(merged, later, pool)
    after = numbered(fused(more), before)
    assert after[: len(before)] == before and len({*after}) == len(after)
    assert numbered(fused(more), after) == after
    shown = {key for each in fused(more) if each.covers & {*after} for key in each.covers}
    assert shown == set(more)


def test_of_one_ranking_only_the_best_rank_counts() -> None:
    again = merged(pool_of(found("wiki", "moss", "fern"), "agent_1"), pool_of(found("wiki", "fern"), "agent_2"))
    assert {each.key: each.score for each in fused(again)} == {key_of("moss"): 1 / 61, key_of("fern"): 1 / 61}


@pytest.mark.parametrize(
    ("short", "long", "expected"),
    [
        ("a b c d e", "x a b c d e y", True),
        ("a b c d e f g h i z", "a b c d e f g h i", True),  # 6 of 7 grams
        ("a b c d z", "a b c d e", False),
        ("moss", "moss on stone", False),
        ("on stone", "moss on stone", True),
    ],
)
def test_a_text_is_contained_where_four_fifths_of_its_grams_are(short: str, long: str, expected: bool) -> None:
    assert contained(short.split(), long.split()) is expected
