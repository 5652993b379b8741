"""A discussion as a chat: front ends ask with `messages` and read `messages`; no checkpoint has a copy of them."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState

from sottovoce.core.any_types import AnyState
from sottovoce.core.errors import RequestError
from tests.graphs.support import THREAD, around, debating, script

ASKED = "What is 14 + 3 * 5 - 7?"


def debate(saver: AnyState = None) -> AnyState:
    model = script({"agent_1": ["20", "22"], "agent_2": ["22", "22"]})
    return debating(model, agents=2, rounds=2, saver=saver)


def told(messages: list[Any]) -> list[tuple[str, str | None, str]]:
    return [(message["type"], message.get("name"), message["content"]) for message in messages]


CHAT = [
    ("human", None, ASKED),
    ("ai", "agent_1", "The answer is 20."),
    ("ai", "agent_2", "The answer is 22."),
    ("ai", "agent_1", "The answer is 22."),
    ("ai", "agent_2", "The answer is 22."),
    ("ai", "decision", "22"),
]


def test_the_output_has_the_question_each_agent_s_words_and_the_answer_as_messages() -> None:
    messages = debate().invoke({"question": ASKED})["messages"]
    assert told(messages) == CHAT and len({message["id"] for message in messages}) == len(CHAT)


@pytest.mark.parametrize(
    "message", [HumanMessage(ASKED), {"role": "user", "content": ASKED}, {"type": "human", "content": ASKED}]
)
def test_the_last_human_message_is_the_question(message: Any) -> None:
    given = {"messages": [HumanMessage("Hello."), AIMessage("Hello."), message]}
    assert told(debate().invoke(given)["messages"]) == CHAT


@pytest.mark.parametrize(
    ("messages", "line"),
    [
        ([], "messages are []; expected a human message with the question"),
        ([AIMessage("Hello.", id="1")], "expected a human message with the question"),
        ([7], "messages are [7]; expected LangChain's, or their JSON"),
    ],
)
def test_messages_without_a_question_are_refused_in_one_line(messages: Any, line: str) -> None:
    with pytest.raises(RequestError) as refused:
        debate().invoke({"messages": messages})
    assert line in str(refused.value) and "\n" not in str(refused.value)


def test_the_state_shows_them_and_no_checkpoint_has_them() -> None:
    saver = InMemorySaver()
    graph = debate(saver)
    graph.invoke({"question": ASKED}, THREAD)
    values = graph.get_state(THREAD).values
    assert [(each["type"], each.get("name"), each["content"]) for each in values["messages"]] == CHAT
    assert not any("messages" in each.checkpoint["channel_values"] for each in saver.list(THREAD))


def test_the_state_of_a_discussion_under_way_shows_what_was_said_so_far() -> None:
    graph = debate(InMemorySaver())
    graph.invoke({"question": ASKED}, THREAD, interrupt_after=["agent_1", "agent_2"])
    messages = graph.get_state(THREAD).values["messages"]
    assert [(each["type"], each.get("name"), each["content"]) for each in messages] == CHAT[:3]
    graph.invoke(None, THREAD)
    assert graph.get_state(THREAD).values["messages"][:3] == messages


def test_a_graph_of_messages_around_it_gets_them_without_the_question_again() -> None:
    messages = around(debate(), MessagesState).invoke({"messages": [HumanMessage(ASKED)]})["messages"]
    assert told([message.model_dump() for message in messages]) == CHAT
