"""What enters a graph, and a thread that takes one question after another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.store import PayloadStore
from sottovoce.core.errors import UsageError
from sottovoce.graphs import NAMES
from tests.graphs.support import KEYS, QUESTION, THREAD, Asking, Graph, around, board, built, debating, held, marked
from tests.graphs.test_schemes_resume import cmd, exact
from tests.tables import each_row

OTHER: Any = {"configurable": {"thread_id": "2"}}
NEXT: Any = {"question": "And what is 1 + 1?"}


def kept(graph: Graph, thread: Any) -> dict[str, Any]:
    """A thread's values; of its messages' summaries none, as a second discussion reads more out of the cache."""
    values: dict[str, Any] = graph.get_state(thread).values
    return {**values, "board": [replace(message, stats={}) for message in board(values)]}


# What enters


def test_every_field_of_every_scheme_s_form_is_described() -> None:
    for name in NAMES:
        schema = built(name).get_input_jsonschema()
        for form in (schema, *schema["$defs"].values()):
            assert all(field.get("description") for field in form["properties"].values())
        assert schema["required"] == ["question"]


@each_row(
    ("given", "expected"),
    [
        ({**NEXT, "choises": ["1", "2"]}, "unknown key in the input: 'choises'; did you mean 'choices'?"),
        (
            {**NEXT, "protocol": "sde"},
            "the input has 'protocol', which is a setting: settings go beside the ",
        ),
        ("What is 1 + 1?", "the input is 'What is 1 + 1?'; expected a dict, like {'question': "),
        ({"target": "2"}, "the question is empty; give a text to discuss"),
        ({**NEXT, "choices": "AB"}, "choices is 'AB': expected a valid list"),
    ],
)
def test_what_is_no_input_is_refused_and_its_thread_stays_as_it_was(given: Any, expected: str) -> None:
    graph = debating(marked(2, 2), rounds=1, saver=InMemorySaver())
    held(graph, THREAD)
    before = graph.get_state(THREAD)
    with pytest.raises(UsageError) as refused:
        graph.invoke(given, THREAD)
    assert expected in str(refused.value)
    assert graph.get_state(THREAD) == before


def test_none_is_a_field_that_was_not_given() -> None:
    state = debating(marked(2, 1), rounds=1).invoke(
        {**QUESTION, "kind": None, "choices": None, "documents": None, "target": None}, output_keys=["decision", "kind"]
    )
    assert "kind" not in state and state["decision"]["score"] is None


class Moody(Asking):
    mood: str


class Modelled(BaseModel):
    question: str = ""
    mood: str = ""
    decision: Any = None


@pytest.mark.parametrize("schema", [Moody, Modelled])
def test_a_graph_inside_another_one_takes_what_it_knows_of_that_one_s_state(schema: type[Any]) -> None:
    debate = debating(ScriptedChatModel(["The answer is 2."] * 2), rounds=1)
    graph = around(debate, schema, InMemorySaver())
    assert graph.invoke({**NEXT, "mood": "sour"}, THREAD)["decision"]["answer"] == "2"


# One question after another


def test_the_next_question_of_a_thread_is_discussed_as_in_a_thread_of_its_own(store: PayloadStore) -> None:
    graph = cmd(exact(store), rounds=1)
    held(graph, THREAD, target="22", aliases=["22.0"], documents=["Mia has 3."], description="Sums.")
    first = graph.get_state(THREAD).values
    place = {"agent": "agent_1", "role": "agent_1", "act": "answer", "epoch": 0, "round": 0, "turn": 0, "attempt": 0}
    handed = {**place, "score": None, "what": "human", "why": "?"}
    graph.update_state(THREAD, {"interventions": [handed], "pending": {"agent_1": {}}}, as_node="decide")
    graph.invoke(NEXT, THREAD)
    graph.invoke(NEXT, OTHER)
    assert kept(graph, THREAD) == kept(graph, OTHER)
    assert first in [snapshot.values for snapshot in graph.get_state_history(THREAD)]


NOT_OVER = r"a discussion that is not over; continue it \(with None as the input\)"


def test_a_discussion_that_is_not_over_takes_no_other_question_and_goes_on_from_where_it_stood() -> None:
    model = marked(2, 3)
    graph = debating(model, rounds=2, saver=InMemorySaver())
    graph.invoke(QUESTION, THREAD, interrupt_after=["close_round"])
    before = graph.get_state(THREAD)
    with pytest.raises(UsageError, match=NOT_OVER):
        graph.invoke(NEXT, THREAD)
    assert len(model.calls) == 2 and graph.get_state(THREAD) == before
    assert len(board(graph.invoke(None, THREAD, output_keys=KEYS))) == 4


async def test_an_edit_of_a_key_that_the_state_has_not_is_refused() -> None:
    graph = debating(marked(2, 1), saver=InMemorySaver())
    graph.invoke(QUESTION, THREAD, interrupt_after=["opening"])
    before = graph.get_state(THREAD)
    for edit in (graph.update_state, graph.aupdate_state):
        with pytest.raises(UsageError, match="unknown key of the state: 'bord'; did you mean 'board'"):
            told: Any = edit(THREAD, {"bord": []}, as_node="opening")
            await told
    assert graph.get_state(THREAD) == before
