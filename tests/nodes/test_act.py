"""An act is written once and runs with and without an event loop."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from sottovoce.agents.ask import Ask
from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import Turn
from sottovoce.core.errors import UsageError
from sottovoce.graphs.debate import Debate
from sottovoce.nodes.act import Act, Node, node
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.contexts import Contexts
from sottovoce.nodes.say import say
from sottovoce.nodes.state import Discussion, Update

STATE = cast(
    Discussion,
    {
        "question": "?",
        "settings": Debate().model_dump(mode="json"),
        "round": 2,
        "turn": 0,
        "epochs": [],
        "marks": [],
        "board": [],
    },
)
Run = RunContext[Debate]


def ask(text: str, act: str = "answer") -> Ask:
    return Ask("agent_1", act, (Turn("user", (text,)),))


def chain(run: Run, state: Discussion, agent: str) -> Update:
    """An act that asks twice: the second question depends on the first reply."""
    (first,) = say(run, state, ask("one"))
    (second,) = say(run, state, ask(f"two after {first.text}", "revise"))
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


async def test_an_act_s_own_work_is_done_off_the_event_loop() -> None:
    threads: list[threading.Thread] = []

    def act(run: Run, state: Discussion, agent: str) -> Update:
        threads.append(threading.current_thread())
        say(run, state, ask("one"))
        threads.append(threading.current_thread())
        return {}

    await made(act).ainvoke(STATE)
    assert len(threads) == 2 and threading.main_thread() not in threads


def test_an_async_act_is_refused_when_the_graph_is_built() -> None:
    async def act(run: Run, state: Discussion, agent: str) -> Update:
        return {}

    with pytest.raises(UsageError, match="node 'node' is async; write it with def"):
        made(cast(Act, act))


@pytest.mark.parametrize("half", ["sync", "async"])
async def test_an_act_that_runs_out_of_values_fails_and_does_not_wait_forever(half: str) -> None:
    def act(run: Run, state: Discussion, agent: str) -> Update:
        return cast(Update, next(iter(())))

    with pytest.raises(RuntimeError, match="node 'node' raised StopIteration"):
        made(act).invoke(STATE) if half == "sync" else await made(act).ainvoke(STATE)


async def test_only_a_quick_node_runs_on_the_event_loop() -> None:
    here = threading.get_ident()
    assert await Node(lambda state: threading.get_ident(), quick=True).ainvoke({}) == here
    assert await Node(lambda state: threading.get_ident()).ainvoke({}) != here


def test_equal_settings_share_a_context_and_those_of_other_types_do_not() -> None:
    graph = Contexts(Debate, Debate(), ScriptedChatModel([]))
    states: list[Any] = [{**STATE, "settings": {**STATE["settings"], "rounds": rounds}} for rounds in (2, 2, 2.0)]
    first, second, third = map(graph.of, states)
    assert first is second is not third
