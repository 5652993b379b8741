"""Approvals: the graph stops before what was said takes effect, and a person lets it pass, changes or rejects it."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.core.errors import UsageError
from sottovoce.graphs import scheme
from sottovoce.graphs.codegen import CodeGen
from sottovoce.graphs.debate import Debate
from sottovoce.nodes.state import current_messages
from tests.graphs.support import NEEDED, QUESTION, board
from tests.nodes.test_monitor_node import SCRIPTS, THREAD, held, model_of
from tests.tables import each_row

AWARD = '{{"thoughts": "So.", "action": 3, "character": {}}}'


def made(name: str, model: Any = None, watch: Any = None, **settings: Any) -> Any:
    """A compiled graph that stopped where a person is asked for the first time."""
    found = scheme(name)
    chosen = found.settings(**SCRIPTS[name][0] | settings)
    graph = found.create(chosen, models=model or model_of(name), watch=watch, **NEEDED.get(name, {}))
    compiled = graph.compile(checkpointer=InMemorySaver())
    compiled.invoke(QUESTION, THREAD)
    return compiled


def waiting(graph: Any) -> dict[str, Any]:
    """What is to be approved, by agent."""
    return {each.value["agent"]: each for each in graph.get_state(THREAD).interrupts}


def answered(graph: Any, **replies: Any) -> Any:
    """Go on with replies by agent, all at once; those who are not named are approved."""
    given = {each.id: replies.get(agent, {"approve": True}) for agent, each in waiting(graph).items()}
    graph.invoke(Command(resume=given), THREAD)
    return graph.get_state(THREAD).values


def test_what_is_said_side_by_side_is_approved_written_anew_or_rejected_at_once() -> None:
    graph = made("debate", agents=3, rounds=1, approve=["answer"])
    assert waiting(graph)["agent_2"].value == {
        "agent": "agent_2",
        "act": "answer",
        "approve": "answer",
        "text": "The answer is 22.",
        "then": "it is published, and others continue from it",
        "notes": [],
    }

    state = answered(graph, agent_2="The answer is 21.", agent_3={"approve": False})

    assert [(each.agent, each.source, each.text) for each in current_messages(state)] == [
        ("agent_1", "hosted", "The answer is 22."),
        ("agent_2", "human", "The answer is 21."),
        ("agent_3", "rule", ""),
    ]
    assert [each["answer"] for each in state["decision"]["votes"]] == ["22", "21", None]
    assert {each["agent"]: (each["what"], each["why"]) for each in state["interventions"]} == {
        "agent_2": ("edit", "a person rewrote it"),
        "agent_3": ("reject", "a person rejected it"),
    }


@pytest.mark.parametrize("name", ["govsim", "codegen"])
def test_who_approves_all_changes_nothing(name: str) -> None:
    settings = scheme(name).settings
    graph = made(name, approve=[*settings.acts])
    while waiting(graph):
        state = answered(graph)

    expected, _ = held(name, None)
    assert (board(state), state["decision"]) == (board(expected), expected["decision"])


def test_an_award_waits_for_a_person_and_a_rejected_one_is_a_turn_in_which_nothing_was_said() -> None:
    model = ScriptedChatModel({"Beth": [AWARD.format(1), AWARD.format(2)], "": SCRIPTS["whodunit"][1][""] * 9})
    graph = made("whodunit", model, approve=["award"])
    assert (waiting(graph)["Beth"].value["approve"], waiting(graph)["Beth"].value["then"]) == (
        "award",
        "it ends the game",
    )

    answered(graph, Beth={"approve": False})
    assert waiting(graph)["Beth"].value["text"] == AWARD.format(2)
    state = answered(graph)

    assert (state["world"]["awarded"], state["world"]["turn"], len(state["interventions"])) == (2, 3, 1)


def test_wishes_wait_for_a_person_before_the_harvest_and_another_wish_is_harvested_instead() -> None:
    graph = made("govsim", approve=["harvest"], months=1, language=False)
    assert {each.value["approve"] for each in waiting(graph).values()} == {"harvest"}

    state = answered(graph, John="Answer: 3 tons")

    assert state["world"]["harvests"][0]["wanted"] == {"John": 3, "Kate": 10}


def test_a_program_is_not_run_before_a_person_approved_it() -> None:
    graph = made("codegen", approve=["run"])
    assert {agent: each.value["approve"] for agent, each in waiting(graph).items()} == {
        "PythonAssistant": "run",
        "AlgorithmDeveloper": "run",
    }
    assert graph.get_state(THREAD).next == ("watch_PythonAssistant", "watch_AlgorithmDeveloper")


def test_a_reply_that_is_none_is_told_and_the_approval_waits_on() -> None:
    graph = made("debate", agents=1, rounds=1, approve=["answer"])
    answered(graph, agent_1=3)
    assert waiting(graph)["agent_1"].value["wrong"].startswith("found 3; expected {")

    assert answered(graph)["decision"]["answer"] == "22"


def test_what_nobody_does_is_refused_with_what_is_nearest() -> None:
    with pytest.raises(UsageError, match=r"to approve: 'revize'; did you mean 'revise'\?"):
        Debate(approve=["revize"])
    with pytest.raises(UsageError, match="to approve: 'Tester'"):
        CodeGen(approve=["Tester"])


def test_a_graph_that_was_built_without_approvals_refuses_a_context_that_asks_for_them() -> None:
    graph = scheme("debate").create(Debate(), models=model_of("debate")).compile(checkpointer=InMemorySaver())
    with pytest.raises(UsageError, match="the context asks for approvals"):
        graph.invoke(QUESTION, THREAD, context={"approve": ["answer"]})


@each_row("name", ["mad", "madra", "govsim", "codegen"])
def test_what_agents_do_can_be_approved_by_its_name(name: str) -> None:
    state, model = held(name, None)
    assert {each.act for each in model.calls} <= {*scheme(name).settings.acts, "test", "review", "rank"}
    assert state["decision"]
