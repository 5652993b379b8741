"""Edits of a thread's state with odd values, and going on from there."""

from __future__ import annotations

import random

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import InvalidUpdateError

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.core.errors import UsageError
from sottovoce.nodes.state import Discussion
from tests.fuzz.cases import drawn, edited, held, kept, value
from tests.graphs.support import QUESTION, debating


class Steady(ScriptedChatModel):
    """Says the same for ever."""

    def _next(self, agent: str) -> str:
        return "Answer: 4"


@drawn("states")
def test_an_edited_state_goes_on_or_is_refused_in_one_line(seeds: range) -> None:
    graph = debating(Steady(), saver=InMemorySaver(), rounds=2)
    thread: RunnableConfig = {"configurable": {"thread_id": "1"}}
    graph.invoke(QUESTION, thread)
    steps = [each for each in graph.get_state_history(thread) if each.next and each.values]

    def case(rng: random.Random) -> None:
        step = rng.choice(steps)
        key = rng.choice([*Discussion.__annotations__])
        held_now = step.values.get(key)
        given = edited(rng, [held_now])[:1] if rng.random() < 0.6 else [value(rng)]
        if not kept(given):
            return
        as_node = rng.choice(["opening", "next_round", "agent_1", "close_round", None])
        config = graph.update_state(step.config, {key: given[0] if given else None}, as_node=as_node)
        graph.invoke(None, config)

    held("states", seeds, case, InvalidUpdateError)  # LangGraph asks for as_node


def test_a_thread_whose_opening_was_passed_over_is_told_so() -> None:
    # Found by fuzzing: a KeyError.
    graph = debating(Steady(), saver=InMemorySaver())
    thread: RunnableConfig = {"configurable": {"thread_id": "1"}}

    graph.update_state(thread, QUESTION, as_node="opening")
    with pytest.raises(UsageError, match="was never opened; resume it from the step before 'opening'"):
        graph.invoke(None, thread)
