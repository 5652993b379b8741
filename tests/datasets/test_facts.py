"""Questions of two facts: both are needed, and each is one agent's."""

from __future__ import annotations

from itertools import pairwise

import pytest

from sottovoce.datasets.facts import two_facts
from sottovoce.nodes.question import check_question

MANY = 288


def test_the_same_seed_makes_the_same_questions_and_another_others() -> None:
    assert two_facts(3, seed=1) == two_facts(MANY, seed=1)[:3]
    assert two_facts(3, seed=1) != two_facts(3, seed=2)
    assert len({each["question"] for each in two_facts(MANY, seed=1)}) == MANY


def test_one_agent_knows_the_person_and_the_other_the_answer() -> None:
    for each in two_facts(MANY):
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


def test_either_agent_may_get_the_fact_that_holds_the_answer() -> None:
    holders = {
        next(agent for agent, facts in each["documents"].items() if each["target"] in facts[0])  # type: ignore[union-attr]  # by agent
        for each in two_facts(MANY)
    }
    assert holders == {"agent_1", "agent_2"}
