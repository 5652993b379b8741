"""Generated questions: arithmetic as CIPHER has it or of a chosen length, pairs of facts, and the encyclopedia."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import Any, get_args

import pytest

from sottovoce.datasets.arithmetic import MADE, Expression, made_arithmetic, split_knowledge
from sottovoce.datasets.facts import PAIRS, two_facts
from sottovoce.datasets.samples import MAX_SAMPLES, PASSAGES, about_the_world, passages, samples
from sottovoce.environments.encyclopedia import LABELS, Asked, Type, encyclopedia, questions
from sottovoce.graphs.debate import Debate
from sottovoce.graphs.single import Single
from sottovoce.nodes.question import Question, check_question, passages_of
from sottovoce.prompts import kinds
from tests.shared import shared
from tests.tables import some

N = 60


def asked(name: str, seed: int = 0) -> list[Expression]:
    """What is asked, read from the questions' own words."""
    found = [re.findall(r"\d+|[-+*]", each["question"]) for each in made_arithmetic(name, N, seed)]
    return [Expression(tuple(map(int, parts[::2])), tuple(parts[1::2])) for parts in found]


def test_the_papers_expressions_have_six_different_numbers_of_two_digits() -> None:
    for each in asked("arithmetic_cipher"):
        assert len({*each.operands}) == 6 and all(10 <= number <= 99 for number in each.operands)
        assert len(each.operators) == 5
    assert {operator for each in asked("arithmetic_cipher") for operator in each.operators} == {"+", "-", "*"}


def test_the_files_expressions_have_the_shape_of_the_real_ones() -> None:
    real = re.compile(r"What is the result of (\d+\+\d+\*\d+\+\d+-\d+\*\d+)\?")
    lines = shared("datasets/arithmetic_valid200.jsonl").read_text().splitlines()
    assert all(real.search(line) for line in lines)
    for each in asked("arithmetic_files"):
        assert each.operators == ("+", "*", "+", "-", "*") and all(0 <= number <= 29 for number in each.operands)


@pytest.mark.parametrize("operations", [2, 6])
def test_a_chain_has_as_many_operations_as_its_name_says_and_is_new_to_the_bundled_model(operations: int) -> None:
    found = asked(f"chain{operations}")
    assert {len(each.operators) for each in found} == {operations}
    assert all(each.held_out for each in found)


def test_only_together_do_agents_know_all_values() -> None:
    for question in split_knowledge(50, seed=2):
        names = {part for part in question["question"][8:-1].split() if part.isalpha()}
        documents: Any = question["documents"]
        known = [{line.split(" = ")[0] for line in lines} for lines in documents.values()]
        assert set.union(*known) == names and all(own < names for own in known)


@pytest.mark.parametrize("name", [*MADE])
def test_targets_are_right(name: str) -> None:
    for each in samples(name, 3, Debate(), 4):
        expression = each["question"].removeprefix("What is ").removesuffix("?")
        assert int(each["target"]) == _by_hand(expression)


def _by_hand(expression: str) -> int:
    """Products first, then sums from the left: worked out otherwise than the program does."""
    total = 0
    for sign, term in re.findall(r"(^|[-+]) ?(\d+(?: \* \d+)*)", expression):
        value = 1
        for factor in term.split(" * "):
            value *= int(factor)
        total += -value if sign == "-" else value
    return total


# Pairs of facts

MANY = 288


@pytest.mark.parametrize("name", PAIRS)
def test_one_agent_knows_the_person_and_the_other_the_answer(name: str) -> None:
    for each in two_facts(MANY, name=name):
        (first,), (second,) = sorted(each["documents"].values(), key=lambda facts: each["target"] in facts[0])  # type: ignore[union-attr]  # by agent
        person = next(name for name in _names(each["question"]) if name in first)
        assert person not in second and each["target"] in second and each["target"] not in first
        assert any(middle in second for middle in _names(first.replace(person, "")))
        assert each["solution"] == f"{first} {second} The answer is {each['target']}."


def _names(text: str) -> list[str]:
    """Two words in capitals that follow one another, or one."""
    words = text.rstrip("?.").split()
    pairs = [f"{one} {other}" for one, other in pairwise(words) if one[0].isupper()]
    return [*(pair for pair in pairs if pair.istitle()), *(word for word in words if word[0].isupper())]


@pytest.mark.parametrize(("agents", "known"), [(("solo",), [2]), (("a", "b"), [1, 1]), (("a", "b", "c"), [0, 1, 1])])
def test_facts_go_to_two_agents_and_a_single_one_gets_both(agents: tuple[str, ...], known: list[int]) -> None:
    for each in two_facts(MANY, agents):
        check_question(each, list(agents))
        assert sorted(len(facts) for facts in each["documents"].values()) == known  # type: ignore[union-attr]  # by agent


# The encyclopedia

GOLD: dict[str, Asked] = {asked.text: asked for type in get_args(Type) for asked in questions(type)}


@pytest.mark.parametrize("type", some([None, *get_args(Type)], None))
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
