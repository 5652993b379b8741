"""The baselines: one agent, and samples of one, with everything that the agents of a scheme know together."""

from __future__ import annotations

import pytest

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.core.errors import UsageError
from tests.graphs.support import KEYS, QUESTION, built

PRIVATE = {"agent_1": ["Mia has 3.", "Tom has 5."], "agent_2": ["Tom has 5.", "Ann has 7."]}


def said(*answers: str) -> ScriptedChatModel:
    return ScriptedChatModel([f"The answer is {answer}." for answer in answers])


@pytest.mark.parametrize(("name", "calls"), [("single", 1), ("self_consistency", 5)])
def test_a_baseline_reads_the_documents_of_all_agents_each_once(name: str, calls: int) -> None:
    model = said(*["22"] * calls)
    built(name, model).invoke({**QUESTION, "documents": PRIVATE})
    assert len(model.calls) == calls
    for asked in model.calls:
        assert [asked.text.count(fact) for fact in ("Mia has 3.", "Tom has 5.", "Ann has 7.")] == [1, 1, 1]


@pytest.mark.parametrize(("name", "calls"), [("single", 1), ("self_consistency", 5)])
def test_with_a_closed_book_a_baseline_reads_no_document(name: str, calls: int) -> None:
    model = said(*["22"] * calls)
    built(name, model, closed_book=True).invoke({**QUESTION, "documents": PRIVATE})
    assert len(model.calls) == calls and not [asked for asked in model.calls if "What you know" in asked.text]


@pytest.mark.parametrize(("part", "read"), [(1, [0, 2, 4]), (2, [1, 3, 5])])
def test_single_may_read_what_one_agent_of_information_asymmetry_is_dealt(part: int, read: list[int]) -> None:
    model, ranked = said("22"), [f"Passage {rank}." for rank in range(6)]
    built("single", model, part=part).invoke({**QUESTION, "documents": ranked})
    assert [rank for rank in range(6) if ranked[rank] in model.calls[0].text] == read


def test_a_part_that_there_is_not_is_refused() -> None:
    with pytest.raises(UsageError, match="part is 3; expected 1 to 2, the number of parts"):
        built("single", said(), part=3)


def test_single_asks_what_a_debater_is_asked_first() -> None:
    single, debate = said("1"), said("1", "1")
    built("single", single).invoke(QUESTION)
    built("debate", debate, rounds=1).invoke(QUESTION)
    assert single.calls[0].turns == debate.calls[0].turns


def test_self_consistency_takes_the_most_frequent_of_independent_samples() -> None:
    model = ScriptedChatModel({f"sample_{i + 1}": [f"The answer is {n}."] for i, n in enumerate([7, 5, 5])})
    state = built("self_consistency", model, samples=3).invoke(QUESTION, output_keys=KEYS)
    assert state["decision"]["answer"] == "5"
    assert len({asked.text for asked in model.calls}) == 1
    assert len({asked.options["seed"] for asked in model.calls}) == 3
