"""Replies that take too long, and callers that go away: the rows that they held are free again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from langchain_core.outputs import ChatResult
from langgraph.checkpoint.memory import InMemorySaver

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.channels.store import PayloadStore
from sottovoce.core.errors import LateReply
from sottovoce.graphs.debate import Debate, create_debate
from tests.graphs.support import KEYS, QUESTION, THREAD, Graph, Recording, State, board
from tests.support import endless_loaded, rows_are_free

NAMES = ("agent_1", "agent_2", "agent_3")
SETTINGS = Debate(agents=3, rounds=2, temperature=[0], answer_turn="off")
LONG, SHORT = 3000, 6  # tokens: seconds of a reply, and none


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    HookedChatModel(preloaded=endless_loaded(), max_tokens=1).invoke("warm")


def models(slow: int = LONG, **more: Any) -> dict[str, Recording]:
    """Three agents of one engine, of whom the second talks at length."""
    lengths = (SHORT, slow, SHORT)
    return {
        name: Recording(preloaded=endless_loaded(), max_tokens=n, **(more if n == slow else {}))
        for name, n in zip(NAMES, lengths, strict=True)
    }


def debate(given: Any, store: PayloadStore, saver: Any = None) -> Graph:
    return create_debate(SETTINGS, models=given, store=store).compile(checkpointer=saver)


def said(state: State) -> list[tuple[str, str]]:
    """Words, and the bits of what lies under them."""
    return [(message.text, message.payload.sha256) for message in board(state)]  # type: ignore[union-attr]


class Last(Recording):
    """An agent that speaks after the others' messages are saved, so that its late reply cancels none of them."""

    saver: Any

    async def _agenerate(self, *args: Any, **kwargs: Any) -> ChatResult:
        async def saved() -> int:
            return len({task for task, *_ in (await self.saver.aget_tuple(THREAD)).pending_writes})

        while await saved() < len(NAMES) - 1:
            await asyncio.sleep(0.01)
        return await super()._agenerate(*args, **kwargs)


async def test_who_is_too_late_is_named_and_alone_asked_again(store: PayloadStore) -> None:
    saver = InMemorySaver()
    slow = Last(preloaded=endless_loaded(), max_tokens=LONG, timeout=0.3, saver=saver)
    late = debate({**models(), "agent_2": slow}, store, saver)
    with pytest.raises(LateReply, match=r"^agent_2, answer: no reply within 0\.3 s; raise `timeout` or lower"):
        await late.ainvoke(QUESTION, THREAD)
    assert await rows_are_free(LONG) and (await late.aget_state(THREAD)).next == ("agent_2",)

    again = models(SHORT)
    graph = debate(again, store, saver)
    state = await graph.ainvoke(None, THREAD, output_keys=KEYS)

    assert [len(again[name].requests) for name in NAMES] == [1, 2, 1]
    unbroken = await debate(models(SHORT), store).ainvoke(QUESTION, output_keys=KEYS)
    assert said(state) == said(unbroken)


def test_a_late_reply_frees_its_row_in_a_thread_too(store: PayloadStore) -> None:
    with pytest.raises(LateReply, match=r"^agent_2, answer: no reply within 0\.3 s"):
        debate(models(timeout=0.3), store).invoke(QUESTION)
    assert asyncio.run(rows_are_free(LONG))


def test_the_setting_reaches_the_models_of_a_run(folder: str, store: PayloadStore) -> None:
    settings = Debate(model=[folder], rounds=1, timeout=1e-6)
    with pytest.raises(LateReply, match=r"agent_\d, answer: no reply within 1e-06 s"):
        create_debate(settings, store=store).compile().invoke(QUESTION)


async def stopped_listening(graph: Graph) -> None:
    stream = graph.astream(QUESTION, stream_mode="updates")
    for _ in range(4):  # opening, next_round, and the two whose replies are short
        await anext(stream)
    while not endless_loaded().engine.statistics.running:
        await asyncio.sleep(0.01)
    await stream.aclose()  # type: ignore[attr-defined]  # LangGraph promises an iterator and returns a generator


async def ran_out_of_patience(graph: Graph) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(graph.ainvoke(QUESTION), 0.5)


@pytest.mark.parametrize("leave", [stopped_listening, ran_out_of_patience])
async def test_a_caller_who_goes_away_leaves_no_row_behind(
    leave: Callable[[Graph], Awaitable[None]], store: PayloadStore
) -> None:
    await leave(debate(models(), store))
    assert await rows_are_free(LONG)
