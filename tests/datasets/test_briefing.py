"""Briefings: questions about one of several facts, which the answering agent does not know."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from sottovoce.datasets.facts import ATTRIBUTES, BRIEFINGS, briefings
from sottovoce.nodes.question import Question, check_question, passages_of
from sottovoce.prompts import kinds

MANY = 500


def holding(question: Question) -> list[int]:
    """Places of the facts that contain the target as a word."""
    facts = [passage["text"] for passage in passages_of(question, None)]
    return [at for at, fact in enumerate(facts) if names(fact, question["target"])]


def names(text: str, word: str) -> bool:
    return re.search(rf"\b{re.escape(word)}\b", text, re.IGNORECASE) is not None


@pytest.mark.parametrize("name", BRIEFINGS)
def test_exactly_one_fact_has_the_answer_and_the_question_does_not(name: str) -> None:
    for each in briefings(name, MANY, ("solo",)):
        facts = [passage["text"] for passage in passages_of(each, "solo")]
        (at,) = holding(each)
        assert len({*facts}) == BRIEFINGS[name] and not names(each["question"], each["target"])
        assert each["solution"] == f"{facts[at]} The answer is {each['target']}."
        for said in (each["solution"], each["target"]):
            assert kinds.right(kinds.read_reply(said, each), each)


@pytest.mark.parametrize("name", BRIEFINGS)
def test_no_two_facts_have_the_same_subject_and_attribute(name: str) -> None:
    patterns = [re.compile(each.fact.format(person="(.+)", town="(.+)", value=".+")) for each in ATTRIBUTES]
    for each in briefings(name, 100):
        facts = [passage["text"] for passage in passages_of(each, None)]
        known = [(i, match[1]) for fact in facts for i, rule in enumerate(patterns) if (match := rule.fullmatch(fact))]
        assert len({*known}) == len(known) == BRIEFINGS[name]


@pytest.mark.parametrize("name", BRIEFINGS)
def test_places_and_attributes_are_spread_and_no_target_is_frequent(name: str) -> None:
    asked = briefings(name, MANY)
    subjects = Counter(re.sub(r"([A-Z]\w+ [A-Z]\w+)", "", each["question"]) for each in asked)
    places = Counter(at for each in asked for at in holding(each))
    assert len(subjects) == len(ATTRIBUTES) and max(subjects.values()) < 2 * min(subjects.values())
    assert {*places} == {*range(BRIEFINGS[name])} and max(places.values()) < 2.5 * min(places.values())
    assert max(Counter(each["target"] for each in asked).values()) <= MANY / 40


@pytest.mark.parametrize(
    ("agents", "known"),
    [(("solo",), [4]), (("a", "b"), [4, 0]), (("a", "b", "c"), [2, 2, 0]), (tuple("abcdefg"), [1, 1, 1, 1, 0, 0, 0])],
)
def test_all_agents_but_the_last_are_dealt_the_facts(agents: tuple[str, ...], known: list[int]) -> None:
    for each in briefings("briefing", 20, agents):
        check_question(each, list(agents))
        assert [len(passages_of(each, agent)) for agent in agents] == known
