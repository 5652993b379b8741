"""An act is written once and runs with and without an event loop."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.core.event_loop import wait
from sottovoce.graphs.debate import Debate
from sottovoce.nodes.act import Act, Node, node
from sottovoce.nodes.agent import Agent
from sottovoce.nodes.context import Contexts, RunContext
from sottovoce.nodes.say import say
from sottovoce.nodes.state import Discussion, Update
from tests.nodes.support import ask, state_of

STATE = state_of(settings=Debate().model_dump(mode="json"), round=2)
Run = RunContext[Debate]


async def chain(run: Run, state: Discussion, agent: Agent) -> Update:
    """An act that asks twice: the second question depends on the first reply."""
    (first,) = await say(run, state, agent, ask("one", "answer"))
    (second,) = await say(run, state, agent, ask(f"two after {first.text}", "revise"))
    return {"board": [first, second], "round": 3}


def made(act: Act, model: ScriptedChatModel | None = None) -> Any:
    return node(Contexts(Debate, Debate(), model or ScriptedChatModel(["a", "b"])), act, "agent_1", "node")


@pytest.mark.parametrize("half", ["sync", "async"])
async def test_an_act_may_ask_several_times_and_writes_plain_json(half: str) -> None:
    model = ScriptedChatModel(["a", "b"])
    update = made(chain, model).invoke(STATE) if half == "sync" else await made(chain, model).ainvoke(STATE)
    assert [each.turns[0].text for each in model.calls] == ["one", "two after a"]
    assert update["round"] == 3
    assert [(each["text"], each["act"], each["round"], each["source"]) for each in update["board"]] == [
        ("a", "answer", 2, "hosted"),
        ("b", "revise", 2, "hosted"),
    ]
    assert all(type(each["text"]) is str for each in update["board"])


async def test_an_act_runs_on_the_graph_s_event_loop_and_a_plain_function_in_a_thread() -> None:
    threads: list[threading.Thread] = []

    async def act(run: Run, state: Discussion, agent: Agent) -> Update:
        threads.append(threading.current_thread())
        await say(run, state, agent, ask("one"))
        return {}

    def plain(run: Run, state: Discussion, agent: Agent) -> Update:
        threads.append(threading.current_thread())
        return {}

    await made(act).ainvoke(STATE)
    await made(plain).ainvoke(STATE)
    assert threads[0] is threading.current_thread() is not threads[1]


async def test_a_plain_act_may_wait_for_its_agent() -> None:
    def act(run: Run, state: Discussion, agent: Agent) -> Update:
        return {"board": wait(say(run, state, agent, ask("one")))}

    for update in (made(act).invoke(STATE), await made(act).ainvoke(STATE)):
        assert [each["text"] for each in update["board"]] == ["a"]


@pytest.mark.parametrize("half", ["sync", "async"])
@pytest.mark.parametrize("plain", [True, False])
async def test_an_act_that_runs_out_of_values_fails_and_does_not_wait_forever(half: str, plain: bool) -> None:
    def act(run: Run, state: Discussion, agent: Agent) -> Update:
        return cast(Update, next(iter(())))

    async def coroutine(run: Run, state: Discussion, agent: Agent) -> Update:
        return act(run, state, agent)

    with pytest.raises(RuntimeError, match="raised StopIteration"):
        node = made(act if plain else coroutine)
        node.invoke(STATE) if half == "sync" else await node.ainvoke(STATE)


async def test_only_a_quick_node_runs_on_the_event_loop() -> None:
    here = threading.get_ident()
    assert await Node(lambda state: threading.get_ident(), quick=True).ainvoke({}) == here
    assert await Node(lambda state: threading.get_ident()).ainvoke({}) != here


def test_equal_settings_share_a_context_and_those_of_other_types_do_not() -> None:
    graph = Contexts(Debate, Debate(), ScriptedChatModel([]))
    states: list[Any] = [{**STATE, "settings": {**STATE["settings"], "rounds": rounds}} for rounds in (2, 2, 2.0)]
    first, second, third = map(graph.of, states)
    assert first is second is not third
