"""People in seats: the graph stops with what is asked, several at once, and goes on with what they say, in words."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.core.errors import UsageError
from sottovoce.graphs import scheme
from sottovoce.graphs.debate import Debate
from sottovoce.nodes.context import Contexts
from sottovoce.nodes.hearing import check_edges
from tests.graphs.support import KEYS, QUESTION, board
from tests.nodes.test_monitor_node import SCRIPTS, THREAD, model_of


def made(name: str, models: Any = None, **settings: Any) -> Any:
    """A compiled graph with a saver."""
    found = scheme(name)
    return found.create(found.settings(**settings), models=models).compile(checkpointer=InMemorySaver())


def asked(graph: Any) -> dict[str, Any]:
    """What the graph waits for, by agent."""
    return {each.value["agent"]: each for each in graph.get_state(THREAD).interrupts}


def answered(graph: Any, **replies: Any) -> Any:
    """Go on with replies by agent, all at once."""
    waiting = asked(graph)
    given = {waiting[agent].id: reply for agent, reply in replies.items()}
    return graph.invoke(Command(resume=given), THREAD, output_keys=KEYS)


def test_several_people_of_a_round_are_asked_at_once_and_their_words_are_recorded_as_theirs() -> None:
    model = ScriptedChatModel({"agent_1": ["The answer is 22."]})
    graph = made("debate", {"agent_1": model}, agents=3, rounds=1, human=["agent_2", "agent_3"])
    graph.invoke(QUESTION, THREAD)
    assert {agent: each.value["turns"][0][0] for agent, each in asked(graph).items()} == {
        "agent_2": "user",
        "agent_3": "user",
    }

    state = answered(graph, agent_2="The answer is 21.", agent_3={"text": "The answer is 20."})

    assert [(each.source, each.payload, each.text) for each in board(state)] == [
        ("hosted", None, "The answer is 22."),
        ("human", None, "The answer is 21."),
        ("human", None, "The answer is 20."),
    ]
    assert [each["answer"] for each in state["decision"]["votes"]] == ["22", "21", "20"] and len(model.calls) == 1
    assert state["notes"][:2] == ["a person plays agent_2", "a person plays agent_3"]


@pytest.mark.parametrize(("name", "seat"), [("mad", "moderator"), ("cmd", "secretary"), ("whodunit", "Beth")])
def test_any_seat_of_a_scheme_can_be_a_person_s(name: str, seat: str) -> None:
    model, said = model_of(name), list[str]()
    graph = made(name, model, **SCRIPTS[name][0], human=[seat])
    graph.invoke(QUESTION, THREAD)
    while waiting := asked(graph):
        said.append(model.replies.get(seat, model.replies.get("", []))[0])
        state = answered(graph, **dict.fromkeys(waiting, said[-1]))

    spoken = [each for each in board(state) if each.source == "human"]
    assert [each.agent for each in spoken] == [seat] * len(said) and said
    assert seat not in {each.agent for each in model.calls}


def test_what_cannot_be_read_is_asked_for_again_and_is_an_abstention_in_the_end() -> None:
    graph = made("single", human=["agent_1"])
    graph.invoke(QUESTION, THREAD)
    answered(graph, agent_1="Who knows?")
    assert asked(graph)["agent_1"].value["begun"] == "Answer:"

    state = answered(graph, agent_1="")

    assert state["decision"]["answer"] is None and [each.asked for each in board(state)] == ["", "answer"]


def test_a_reply_that_is_no_text_is_told_and_the_seat_waits_on() -> None:
    graph = made("single", human=["agent_1"])
    graph.invoke(QUESTION, THREAD)
    answered(graph, agent_1=["22"])
    assert asked(graph)["agent_1"].value["wrong"] == """found ['22']; expected a text, or {"text": "..."}"""

    assert answered(graph, agent_1="22")["decision"]["answer"] == "22"


def test_a_graph_without_a_saver_is_refused_before_anybody_is_asked() -> None:
    graph = scheme("debate").create(Debate(human=["agent_1"])).compile()
    with pytest.raises(UsageError, match="a person takes part, but the graph has no checkpointer"):
        graph.invoke(QUESTION)


def test_edges_that_touch_a_person_go_in_words_and_say_so() -> None:
    settings = Debate(protocol="cipher", agents=3, human=["agent_2"])
    run = Contexts(Debate, settings).of({"settings": settings.model_dump(mode="json")})  # type: ignore[typeddict-item]  # no more is read
    told = [note for note in check_edges(run) if "person" in note]
    assert told == [
        f"{hearer} hears {speaker} in words: one of them is a person"
        for speaker, hearer in settings.edges()
        if "agent_2" in (speaker, hearer)
    ]


def test_a_run_without_the_person_of_the_graph_needs_a_model_there() -> None:
    model = ScriptedChatModel(["22"])
    graph = made("debate", {"agent_1": model}, agents=2, rounds=1, human=["agent_2"])
    with pytest.raises(UsageError, match="no model for agent 'agent_2', which a person played"):
        graph.invoke(QUESTION, THREAD, context={"human": []})
