"""Questions that take several steps over facts which the answering agent does not know."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import pytest

from sottovoce.datasets.samples import samples
from sottovoce.datasets.steps import ORDERS, STEPS, steps
from sottovoce.graphs.brief import Brief
from sottovoce.nodes.question import Question, passages_of
from sottovoce.prompts import kinds

MANY = 200
NAME = r"[A-Z]\w+ [A-Z]\w+"


def facts_of(question: Question) -> list[str]:
    return [passage["text"] for passage in passages_of(question, "agent_1")]


def summed(question: Question) -> str:
    """The sum that the question asks for, from the facts alone."""
    counts = {
        match[1]: int(match[2]) for fact in facts_of(question) if (match := re.match(rf"({NAME}) \w+ (\d+)", fact))
    }
    return str(sum(counts[name] for name in re.findall(NAME, question["question"].partition(" do ")[2])))


def extreme(question: Question) -> str:
    """The person at the end of the order that the question asks for, from the comparisons alone."""
    less: set[str] = set()
    more: set[str] = set()
    for fact in facts_of(question):
        left, word, right = re.fullmatch(rf"({NAME}) is (\w+) than ({NAME})\.", fact).groups()  # type: ignore[union-attr]
        if any(word == order.less for order in ORDERS):
            left, right = right, left
        more.add(left)
        less.add(right)
    most = any(f" {order.most} " in question["question"] for order in ORDERS)
    (end,) = more - less if most else less - more
    return end


@pytest.mark.parametrize(
    ("name", "solve"), [("briefing_sum", summed), ("briefing_sums", summed), ("briefing_order", extreme)]
)
def test_the_target_follows_from_the_facts_that_senders_read(name: str, solve: Callable[[Question], str]) -> None:
    for question in steps(name, MANY):
        assert solve(question) == question["target"]
        assert not passages_of(question, "agent_2")
        assert kinds.right(kinds.read_reply(question["solution"], question), question)


@pytest.mark.parametrize("name", STEPS)
def test_two_senders_share_the_facts(name: str) -> None:
    for question in samples(name, 20, Brief(agents=3), 4):
        assert passages_of(question, "agent_1") and passages_of(question, "agent_2")


def test_sums_take_two_or_three_additions_and_no_place_in_an_order_is_favored() -> None:
    additions = Counter(question["solution"].count("=") for question in steps("briefing_sums", MANY))
    places = Counter([question["question"].index(question["target"]) for question in steps("briefing_order", MANY)])
    small = steps("briefing_sum", MANY)
    assert {each["solution"].count("=") for each in small} == {1} and max(int(each["target"]) for each in small) < 20
    assert {*additions} == {2, 3} and min(additions.values()) > MANY / 3
    first = sum(n for at, n in places.items() if at < 30)
    assert MANY / 8 < first < MANY / 2


def test_facts_do_not_stand_in_the_order_that_is_asked_for() -> None:
    middle = sum(question["target"] in facts_of(question)[1] for question in steps("briefing_order", MANY))
    assert middle > MANY / 6  # in that order it is never about an end
