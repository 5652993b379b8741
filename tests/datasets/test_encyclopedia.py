"""Questions about the encyclopedia as samples: readable, answerable from their passages, the same for a seed."""

from __future__ import annotations

from collections import Counter
from typing import get_args

import pytest

from sottovoce.datasets.encyclopedia import PASSAGES, about_the_world, passages
from sottovoce.datasets.samples import MAX_SAMPLES, samples
from sottovoce.environments.encyclopedia import encyclopedia
from sottovoce.environments.encyclopedia.questions import LABELS, Asked, Type, questions
from sottovoce.nodes.question import Question, check_question, passages_of
from sottovoce.prompts import kinds
from sottovoce.settings import Single

GOLD: dict[str, Asked] = {asked.text: asked for type in get_args(Type) for asked in questions(type)}


@pytest.mark.parametrize("type", [None, *get_args(Type)])
def test_every_question_can_be_asked_and_its_target_is_read_as_right(type: Type | None) -> None:
    asked = about_the_world(type, 10_000)
    assert len(asked) > MAX_SAMPLES["world" if type is None else f"world/{type}"]
    for each in asked:
        check_question(each, None)
        assert kinds.right(kinds.read_field(each["target"], each), each)
        assert kinds.right(kinds.read_reply(each["solution"], each), each)


def test_six_passages_hold_all_that_is_needed_in_no_set_place() -> None:
    places = Counter[int]()
    for each in about_the_world(None, 200):
        known, gold = passages_of(each, None), [title for title, _ in GOLD[each["question"]].gold]
        titles = [passage["title"] for passage in known]
        assert len({*titles}) == PASSAGES and {*gold} <= {*titles}
        assert all(passage["text"] == encyclopedia().by_title[passage["id"]].text for passage in known)
        places.update(titles.index(title) for title in gold)
    assert set(places) == set(range(PASSAGES)) and max(places.values()) < 2 * min(places.values())


def test_a_seed_orders_the_same_questions() -> None:
    def texts(found: list[Question]) -> list[str]:
        return [each["question"] for each in found]

    one, other = (about_the_world("bridge", 2_000, seed) for seed in (0, 1))
    assert texts(one) != texts(other) and set(texts(one)) == set(texts(other))
    assert about_the_world("bridge", 3, 1) == other[:3]
    assert passages(GOLD[one[0]["question"]]) == passages_of(one[0], None)


def test_the_types_come_in_turn_and_claims_have_the_labels_of_fever() -> None:
    made = samples("world", 8, Single(), 0)
    assert [each["kind"] for each in made] == ["text", "text", "yes_no", "label"] * 2
    assert made[3]["choices"] == [*LABELS] and "SUPPORTS" in made[3]["description"]
    assert made[5]["id"] == "world/0/5"
