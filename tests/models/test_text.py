from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from sottovoce.models.huggingface.text import BROKEN, Detokenizer, Span, TextStream, overlapping, partial_stop, settled
from tests.support import ids, tiny_tokenizer

PLAIN, SPECIAL = Detokenizer(tiny_tokenizer()), Detokenizer(tiny_tokenizer(), special=True)
EOS = 2


@pytest.mark.parametrize("text", ["", "The answer is 22.", " lead and trail ", "3 £, 4 €, 日本 😀!", "a\n\n\tb"])
def test_spans_cover_the_text_from_end_to_end(text: str) -> None:
    found = ids(text)
    spans = PLAIN.spans(found)

    assert PLAIN.text(found) == text
    assert len(spans) == len(found)
    assert [spans[0][0], spans[-1][1]] == [0, len(text)] if text else spans == []
    assert all(left <= right for left, right in spans)
    assert all(end >= start for (_, end), (start, _) in pairwise(spans))  # no character is missed


def test_tokens_that_share_a_character_overlap() -> None:
    found = ids("£")
    assert len(found) == 2
    assert PLAIN.spans(found) == [(0, 1), (0, 1)]


def test_a_special_token_has_no_place_in_plain_text_and_one_in_special_text() -> None:
    found = (*ids("Th"), EOS, *ids("e"))

    assert (PLAIN.text(found), PLAIN.spans(found)) == ("The", [(0, 2), (2, 2), (2, 3)])
    assert SPECIAL.text(found) == "Th<|im_end|>e"
    assert SPECIAL.spans(found) == [(0, 2), (2, 12), (12, 13)]


def test_an_unfinished_character_is_not_settled() -> None:
    first, second = ids("£")

    assert PLAIN.text([first]) == BROKEN
    assert settled(PLAIN.text([*ids("3 "), first])) == "3 "
    assert settled(PLAIN.text([*ids("3 "), first, second])) == "3 £"


@pytest.mark.parametrize(
    ("part", "tokens"),
    [
        ((0, 9), (0, 3)),
        ((2, 3), (0, 1)),
        ((2, 4), (0, 2)),
        ((4, 5), (1, 2)),
        ((3, 3), (1, 1)),
        ((4, 4), (1, 1)),
        ((20, 30), (3, 3)),
    ],
)
def test_a_part_takes_every_token_that_overlaps_it(part: Span, tokens: Span) -> None:
    assert overlapping([(0, 3), (3, 6), (6, 9)], part) == tokens


@pytest.mark.parametrize(
    ("text", "stops", "held"),
    [
        ("one", (), 0),
        ("one tw", ("two",), 2),
        ("one t", ("t",), 0),
        ("aab", ("aabaa", "bc"), 3),
        ("xa", ("b", "ab"), 1),
    ],
)
def test_what_may_become_a_stop_is_held_back(text: str, stops: tuple[str, ...], held: int) -> None:
    assert partial_stop(text, stops) == held


class Counting(Detokenizer):
    """Counts the tokens that it decodes."""

    decoded = 0

    def text(self, ids: Sequence[int]) -> str:
        self.decoded += len(ids)
        return super().text(ids)


def test_a_streamed_text_is_the_whole_one_and_costs_less() -> None:
    said = ids("You know: £ € 日 What is 14 + 3 * 5 - 7? " * 20)
    detokenizer = Counting(tiny_tokenizer())
    stream = TextStream(detokenizer)

    assert all(stream.text(said[:n]) == PLAIN.text(said[:n]) for n in range(len(said)))
    assert detokenizer.decoded < 50 * len(said) < len(said) ** 2 / 4
