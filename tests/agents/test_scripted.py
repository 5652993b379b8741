"""`ScriptedChatModel`: replies by agent in order, and a record of what each was asked."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sottovoce.agents.ask import Ask
from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import Message, MessageRef, Turn
from sottovoce.core.errors import UsageError
from tests.support import replied

HEARD = MessageRef(Message("agent_2", 0, "answer", "It is 22."))
TURNS = (Turn("system", ("Be brief.",)), Turn("user", ("One said: ", HEARD, "\nNow you.")))


def call(model: ScriptedChatModel, agent: str = "agent_1", **more: Any) -> Message:
    return replied(model, Ask("revise", TURNS, seed=5, **more), agent, epoch=2, round=1, turn=3, attempt=4)


def test_each_agent_has_its_own_queue() -> None:
    model = ScriptedChatModel({"agent_1": ["a", "b"], "agent_2": ["c"]})
    said = [call(model, agent).text for agent in ("agent_1", "agent_2", "agent_1")]
    assert said == ["a", "c", "b"]


def test_one_queue_serves_all_and_those_without_their_own() -> None:
    model = ScriptedChatModel(["a", "b"])
    assert [model.invoke("?").text, call(model, "agent_9").text] == ["a", "b"]
    mixed = ScriptedChatModel({"agent_1": ["a"], "": ["b"]})
    assert [call(mixed, agent).text for agent in ("agent_2", "agent_1")] == ["b", "a"]


@pytest.mark.parametrize(
    ("replies", "agent", "expected"),
    [
        ({"agent_1": ["a"]}, "agent_1", "the script of agent 'agent_1' is empty after 2 calls; give it more replies"),
        ({"agent_1": ["a"]}, "agent_2", "the script of agent 'agent_2' is empty after 2 calls"),
    ],
)
def test_an_empty_queue_is_a_clear_error(replies: dict[str, list[str]], agent: str, expected: str) -> None:
    model = ScriptedChatModel(replies)
    call(model)
    with pytest.raises(UsageError, match=expected):
        call(model, agent)


def test_it_records_who_was_asked_what_how_and_for_what() -> None:
    model = ScriptedChatModel(["a", "b"])
    call(model, temperature=0.3, protocol="nl")
    call(model)
    first, second = model.calls
    assert (first.agent, first.act, first.round, first.turns) == ("agent_1", "revise", 1, TURNS)
    assert {**first.place} == {"epoch": 2, "round": 1, "turn": 3, "agent": "agent_1", "act": "revise", "attempt": 4}
    assert (first.options, second.options) == ({"temperature": 0.3, "speaks": "nl", "seed": 5}, {"seed": 5})
    assert first.text == "[system]\nBe brief.\n[user]\nOne said: It is 22.\nNow you."


def test_it_plays_a_hosted_model_too_which_gets_words_and_no_option_but_its_temperature() -> None:
    model = ScriptedChatModel(["a"], hooked=False)
    call(model, temperature=0.3, protocol="nl")
    (asked,) = model.calls
    assert asked.turns == (Turn("system", ("Be brief.",)), Turn("user", ("One said: It is 22.\nNow you.",)))
    assert asked.options == {"temperature": 0.3}


def test_threads_may_ask_at_once() -> None:
    model = ScriptedChatModel([str(i) for i in range(200)])
    with ThreadPoolExecutor(8) as threads:
        said = list(threads.map(lambda _: model.invoke("?").text, range(200)))
    assert sorted(said, key=int) == [str(i) for i in range(200)]
    assert len(model.calls) == 200
