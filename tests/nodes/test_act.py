"""An act is written once and driven twice, with and without an event loop."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from sottovoce.agents.ask import Ask
from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import Turn
from sottovoce.nodes.act import Steps, message_of, node
from sottovoce.nodes.state import Discussion

STATE = cast(Discussion, {"question": "?"})


def asking(model: ScriptedChatModel, text: str, **more: Any) -> Ask:
    fields = {"agent": "agent_1", "act": "answer", "round": 2, "seed": 1, **more}
    return Ask(model=model, turns=(Turn("user", (text,)),), **fields)


def chain(model: ScriptedChatModel) -> Any:
    """An act that asks twice: the second question depends on the first reply."""

    def act(state: Discussion) -> Steps:
        first = message_of(question := asking(model, "one"), (yield question))
        question = asking(model, f"two after {first.text}", act="revise")
        return {"board": [first, message_of(question, (yield question))], "round": 3}

    return node(act, "chain")


@pytest.mark.parametrize("driver", ["sync", "async"])
async def test_an_act_may_ask_several_times_and_writes_plain_json(driver: str) -> None:
    model = ScriptedChatModel(["a", "b"])
    update = chain(model).invoke(STATE) if driver == "sync" else await chain(model).ainvoke(STATE)
    assert [asked.turns[0].text for asked in model.asked] == ["one", "two after a"]
    assert update["round"] == 3
    assert [(each["text"], each["act"], each["round"], each["source"]) for each in update["board"]] == [
        ("a", "answer", 2, "hosted"),
        ("b", "revise", 2, "hosted"),
    ]
    assert all(type(each["text"]) is str for each in update["board"])


async def test_an_act_s_own_work_is_done_off_the_event_loop() -> None:
    threads: list[threading.Thread] = []

    def act(state: Discussion) -> Steps:
        threads.append(threading.current_thread())
        yield asking(ScriptedChatModel(["a"]), "one")
        threads.append(threading.current_thread())
        return {}

    await node(act, "act").ainvoke(STATE)
    assert len(threads) == 2 and threading.main_thread() not in threads


def test_an_act_that_asks_nothing_is_a_node_too() -> None:
    def act(state: Discussion) -> Steps:
        yield from ()
        return {"round": 1}

    assert node(act, "silent").invoke(STATE) == {"round": 1}


def test_a_reply_cut_at_the_limit_is_noted() -> None:
    question = asking(ScriptedChatModel(), "one")
    reply = ScriptedChatModel(["a"]).invoke("?")
    reply.response_metadata = {"finish_reason": "length"}
    assert message_of(question, reply).notes == ("cut at the token limit",)
