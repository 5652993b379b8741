"""Compiled agents and other runnables as debaters."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.globals import set_llm_cache
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from sottovoce.core.errors import UsageError
from tests.graphs.support import QUESTION, board, debating, script

THREAD: Any = {"configurable": {"thread_id": "1"}}


def compiled_agent() -> Any:
    agent: Any = StateGraph(MessagesState)
    agent.add_node(
        "think", lambda state: {"messages": [AIMessage(f"{len(state['messages'])} read. The answer is 22.")]}
    )
    agent.add_edge(START, "think")
    return agent.compile()


@pytest.mark.parametrize("saver", [None, InMemorySaver()], ids=["bare", "saved"])
async def test_a_compiled_agent_and_a_function_debate_with_a_chat_model(saver: Any) -> None:
    models = {
        "agent_1": compiled_agent(),
        "agent_2": RunnableLambda(lambda messages: f"{messages[-1].type}. The answer is 22."),
        "agent_3": script({"agent_3": ["21", "22"]}),
    }
    graph = debating(models, agents=3, rounds=2, saver=saver)
    found = await graph.ainvoke(QUESTION, THREAD)
    assert found["decision"]["why"] == "3 of 3 say 22"
    assert board(found)[0].text == "1 read. The answer is 22." and board(found)[1].text == "human. The answer is 22."
    assert {message.source for message in board(found)} == {"hosted"}


def test_a_runnable_that_returns_no_message_is_one_line() -> None:
    with pytest.raises(UsageError, match="a runnable agent returned 22; expected a message, or `messages`"):
        debating(RunnableLambda(lambda messages: 22), rounds=1).invoke(QUESTION)  # type: ignore[arg-type]


def answering(number: int) -> RunnableLambda[Any, str]:
    return RunnableLambda(lambda _: f"The answer is {number}.")


def test_langchains_own_cache_serves_no_runnable() -> None:
    """A runnable has no name for what its replies depend on."""
    cache = InMemoryCache()
    set_llm_cache(cache)
    try:
        models: Any = {f"agent_{n}": answering(n) for n in (1, 2, 3)}
        found = debating(models, agents=3, rounds=1).invoke(QUESTION)
    finally:
        set_llm_cache(None)

    assert [each.text[-2] for each in board(found)] == ["1", "2", "3"] and not cache._cache
