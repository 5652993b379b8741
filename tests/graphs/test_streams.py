"""What streams carry: in the graph itself, and of a graph that is a node of another one."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.store import PayloadStore
from sottovoce.graphs import NAMES
from sottovoce.graphs.debate import Debate, create_debate
from tests.graphs.support import QUESTION, THREAD, Graph, around, board, built, debating, script
from tests.graphs.test_transitions import CASES, SCRIPTS
from tests.support import tiny_loaded
from tests.tables import each_row

ANSWERS = {"agent_1": ["20", "22"], "agent_2": ["22", "22"]}


def debate() -> Graph:
    return debating(script(ANSWERS), agents=2, rounds=2)


def spoken(updates: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Node and words of each message that updates show."""
    return [
        (node, message["text"])
        for update in updates
        for node, written in update.items()
        for message in (written or {}).get("board", [])
    ]


SPOKEN = [
    ("agent_1", "The answer is 20."),
    ("agent_2", "The answer is 22."),
    ("agent_1", "The answer is 22."),
    ("agent_2", "The answer is 22."),
]


def test_what_leaves_a_graph_is_json_and_updates_of_a_thread_s_second_question_have_the_shape_of_the_first() -> None:
    """Messages were objects; the first node's update held `__overwrite__`, and None for what it cleared."""
    graph, seen = debating(script({"agent_1": ["20"] * 2, "agent_2": ["22"] * 2}), saver=InMemorySaver(), rounds=1), []
    for _ in range(2):
        parts = list(graph.stream(QUESTION, THREAD, stream_mode=["updates", "values"]))
        assert json.loads(json.dumps(parts)) == [[mode, chunk] for mode, chunk in parts]
        seen.append(
            sorted(
                (node, [*sorted(made or ())])
                for mode, part in parts
                if mode == "updates"
                for node, made in part.items()  # type: ignore[union-attr]
            )
        )
        opened: Any = next(part["opening"] for mode, part in parts if mode == "updates")  # type: ignore[index]
        assert opened["notes"] == [] and opened["round"] == -1
    assert seen[0] == seen[1]
    values = graph.get_state(THREAD).values
    assert json.loads(json.dumps(values)) == values and values["board"][0]["text"] == "The answer is 20."
    assert all(json.dumps(each.values) for each in graph.get_state_history(THREAD))


def test_values_grow_message_by_message_and_so_does_what_invoke_returns() -> None:
    values: list[Any] = list(debate().stream(QUESTION, stream_mode="values"))
    result = debate().invoke(QUESTION)
    assert [len(board) for board, _ in groupby(each.get("board", []) for each in values)] == [0, 2, 4]
    assert set(result) == {"board", "interventions", "votes", "notes", "decision", "messages"}
    assert [each.text for each in board(result)] == [text for _, text in SPOKEN]
    assert result["decision"] == values[-1]["decision"]


def test_a_parent_s_streams_show_the_steps_of_a_discussion_inside_it() -> None:
    updates: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    boards: list[int] = []
    told: list[str] = []
    graph = around(debate())
    assert {"discuss:opening", "discuss:agent_1", "discuss:agent_2"} <= {*graph.get_graph(xray=True).nodes}
    stream: Any = graph.stream(QUESTION, stream_mode=["updates", "values", "custom"], subgraphs=True)
    for namespace, mode, chunk in stream:
        if mode == "updates":
            updates[bool(namespace)].append(chunk)
        elif mode == "values" and namespace:
            boards.append(len(chunk.get("board", [])))
        elif mode == "custom":
            told.append(chunk["type"])
    assert sorted(spoken(updates[True])) == sorted(SPOKEN)
    assert updates[False] == [{"discuss": {"decision": updates[True][-1]["decide"]["decision"]}}]
    assert [length for length, _ in groupby(boards)][-3:] == [0, 2, 4]
    assert told == ["round", "act", "act", "round", "act", "act", "decided"]


def test_a_parent_s_state_shows_where_the_discussion_inside_it_stands() -> None:
    child = create_debate(Debate(agents=2, rounds=2), models=script(ANSWERS)).compile(interrupt_before=["decide"])
    graph = around(child, saver=InMemorySaver())
    graph.invoke(QUESTION, THREAD)
    (task,) = graph.get_state(THREAD, subgraphs=True).tasks
    inner: Any = task.state
    assert inner.next == ("decide",) and len(board(inner.values)) == 4
    assert graph.invoke(None, THREAD)["decision"]["answer"] == "22"


async def test_progress_tells_rounds_acts_and_the_decision() -> None:
    events = [event async for event in debate().astream(QUESTION, stream_mode="custom")]
    assert events[0] == {"type": "round", "round": 0}
    assert sorted((each["agent"], each["act"], each["round"]) for each in events if each["type"] == "act") == [
        ("agent_1", "answer", 0),
        ("agent_1", "revise", 1),
        ("agent_2", "answer", 0),
        ("agent_2", "revise", 1),
    ]
    assert events[-1] == {"type": "decided", "answer": "22", "why": "2 of 2 say 22"}


@each_row("name", NAMES)
def test_every_scheme_s_outside_sees_what_its_agents_say(name: str) -> None:
    """In the server, a stream has the keys of the outcome alone."""
    settings = CASES[name][1]
    graph = built(name, ScriptedChatModel(SCRIPTS.get(name, {"": ["The answer is 22."] * 12})), **settings)
    updates = list(graph.stream({**QUESTION, "target": "22"}, stream_mode="updates", output_keys=graph.output_channels))
    everything = list(graph.get_output_jsonschema()["properties"])
    assert {"board", "votes", "notes", "decision"} <= set(everything)
    assert spoken(updates) and json.dumps(updates)
    assert any((written or {}).get("decision") for update in updates for written in update.values())


def test_tokens_of_one_round_interleave_each_with_its_agent(store: PayloadStore) -> None:
    model = HookedChatModel(preloaded=tiny_loaded(), store=store, max_tokens=12, temperature=0.0)
    graph = debating(model, agents=3, rounds=1, answer_turn="off")
    stream: Any = graph.stream(QUESTION, stream_mode="messages")
    chunks = [(about["agent"], chunk.text) for chunk, about in stream]
    order = [agent for agent, _ in groupby(agent for agent, text in chunks if text)]
    said = {each.agent: each.text for each in board(graph.invoke(QUESTION))}
    assert len(order) > 3, "one after another would be three"
    assert {name: "".join(text for agent, text in chunks if agent == name) for name in said} == said


def streamed(graph: Graph) -> dict[str, tuple[str, str]]:
    """The thoughts and the text that a stream of messages shows of each agent."""
    found: dict[str, tuple[str, str]] = {}
    stream: Any = graph.stream(QUESTION, stream_mode="messages", subgraphs=True)
    for _, (chunk, about) in stream:
        thoughts, text = found.get(about["agent"], ("", ""))
        found[about["agent"]] = thoughts + chunk.additional_kwargs.get("reasoning_content", ""), text + chunk.text
    return found


@pytest.mark.parametrize(
    ("reply", "seen"),
    [
        ("<think>so 22</think>\n\nThe answer is 22.", ("so 22so 22", "The answer is 22.The answer is 22.")),
        # The first reply shows that the prompt opens the thoughts.
        ("so 22</think>The answer is 22.", ("so 22", "so 22</think>The answer is 22.The answer is 22.")),
    ],
)
def test_thoughts_in_the_text_of_a_hosted_model_are_streamed_as_thoughts(reply: str, seen: tuple[str, str]) -> None:
    model = FakeListChatModel(responses=[reply])
    # One agent: of two, the first reply may come while the other is asked.
    graph = create_debate(Debate(agents=1, rounds=2, answer_turn="off"), models=model).compile()
    assert streamed(around(graph)) == {"agent_1": seen}


def test_thoughts_of_a_model_that_does_not_stream_are_shown_as_thoughts() -> None:
    model: Any = RunnableLambda(lambda _: AIMessage("<think>so 22</think>The answer is 22."))
    graph = create_debate(Debate(agents=2, rounds=1, answer_turn="off"), models=model).compile()
    assert streamed(graph) == dict.fromkeys(("agent_1", "agent_2"), ("so 22", "The answer is 22."))
