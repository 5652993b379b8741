"""What a debate leaves in its checkpoints, and how it goes on from them."""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from sottovoce.channels.message import Message
from sottovoce.channels.store import PayloadStore
from sottovoce.core.errors import UsageError
from sottovoce.graphs.debate import Debate, create_debate
from sottovoce.models import Ids, Rows, load
from tests.graphs.support import (
    KEYS,
    QUESTION,
    THREAD,
    Graph,
    Recording,
    board,
    calls,
    debating,
    held,
    lonely,
    lonely_loaded,
    marked,
    outcome,
)
from tests.support import tiny_model, tiny_tokenizer
from tests.tables import some

PROTOCOLS = ["nl", "cipher", "sde", "hidden"]


def saved(path: Path) -> AbstractContextManager[SqliteSaver]:
    """Checkpoints in a file."""
    return SqliteSaver.from_conn_string(str(path / "checkpoints.db"))


def stored(saver: SqliteSaver) -> list[tuple[str, bytes]]:
    """Every value that a saver keeps, as it keeps it."""
    rows = saver.conn.execute("select type, checkpoint from checkpoints union all select type, value from writes")
    return [(kind, bytes(data)) for kind, data in rows]


def plain(value: Any) -> Any:
    """The value as JSON has it; raises TypeError where it is anything more."""
    return json.loads(json.dumps(value, default=as_messages))


def as_messages(value: Any) -> Any:
    if isinstance(value, Message):
        return value.to_dict()
    raise TypeError(f"{type(value)} in a checkpoint")


@pytest.mark.parametrize("protocol", some(PROTOCOLS, "hidden"))
def test_checkpoints_of_a_debate_hold_plain_json_and_no_tensor(
    protocol: str, tmp_path: Path, store: PayloadStore
) -> None:
    assert os.environ["LANGGRAPH_STRICT_MSGPACK"] == "true"
    with saved(tmp_path) as saver:
        graph = debating(lonely(protocol, store), agents=3, rounds=3, saver=saver)
        held(graph, THREAD)
        history = list(graph.get_state_history(THREAD))
        kept = stored(saver)
    assert len(history) == 13  # input, opening, three rounds of three steps, decision, and the start
    for snapshot in history:
        plain(snapshot.values)
        assert all(type(message["text"]) is str for message in snapshot.values.get("board", []))
    assert {each for each, _ in kept} <= {"msgpack", "json", "empty", "null"}, "no pickle"
    values = [saver.serde.loads_typed(each) for each in kept if each[0] not in ("null", "empty")]
    assert all(plain(value) is not None or value is None for value in values)
    assert sum(len(data) for _, data in kept) < 105_000  # most of it the settings, once a step
    assert not any(b"safetensors" in data or b"torch" in data or b"numpy" in data for _, data in kept)


@pytest.mark.parametrize("protocol", some(PROTOCOLS, "cipher"))
async def test_a_saver_or_none_sync_async_and_beside_others_the_result_is_the_same(
    protocol: str, tmp_path: Path, store: PayloadStore
) -> None:
    def graph(saver: Any = None) -> Graph:
        return debating(lonely(protocol, store), rounds=2, answer_turn="off", saver=saver)

    expected = outcome(held(graph()))
    assert len(expected[0]) == 4
    with saved(tmp_path) as saver:
        assert outcome(held(graph(saver), THREAD)) == expected
    assert outcome(held(graph(InMemorySaver()), THREAD)) == expected
    assert outcome(await graph().ainvoke(QUESTION, output_keys=KEYS)) == expected
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "async.db")) as asaver:
        assert outcome(await graph(asaver).ainvoke(QUESTION, THREAD, output_keys=KEYS)) == expected
    for state in await graph().abatch([QUESTION, QUESTION], output_keys=KEYS):
        assert outcome(state) == expected


async def test_many_debates_at_once_fill_the_engine_s_slots(folder: str, store: PayloadStore) -> None:
    graph = debating(protocol="sde", model=[folder], agents=3, rounds=3, max_tokens=6, answer_turn="off", store=store)
    statistics = load(folder).engine.statistics
    requests, stepped, steps = statistics.requests, statistics.stepped, statistics.steps
    states = await graph.abatch([{**QUESTION, "id": f"q{i}"} for i in range(8)], output_keys=KEYS)
    assert statistics.requests - requests == 8 * 9
    assert statistics.widest > 3  # one debate alone has no more than three at a time
    assert (statistics.stepped - stepped) / (statistics.steps - steps) > 3
    assert len({json.dumps(plain(texts_of(state))) for state in states}) == 8


def texts_of(state: Any) -> list[str]:
    return [message.text for message in board(state)]


# Going on


def test_after_a_failure_only_the_agent_that_failed_speaks_again(tmp_path: Path) -> None:
    unbroken = held(debating(marked(3, 3), agents=3, rounds=3))
    model = marked(3, 3)
    replies = model.replies["agent_2"]
    held_back = [replies.pop(), replies.pop()][::-1]
    with saved(tmp_path) as saver:
        graph = debating(model, agents=3, rounds=3, saver=saver)
        with pytest.raises(UsageError, match="the script of agent 'agent_2' is empty"):
            held(graph, THREAD)
        assert graph.get_state(THREAD).next == ("agent_2",)
        replies.extend(held_back)
        state = graph.invoke(None, THREAD, output_keys=KEYS)
    assert outcome(state) == outcome(unbroken)
    assert [len(calls(model, f"agent_{i}")) for i in (1, 2, 3)] == [3, 4, 3]  # agent_2 asked once in vain


@pytest.mark.parametrize("protocol", some(PROTOCOLS, "sde"))
def test_a_run_that_stopped_between_steps_goes_on_in_a_new_process_as_if_unbroken(
    protocol: str, tmp_path: Path, store: PayloadStore
) -> None:
    unbroken = outcome(held(debating(lonely(protocol, store), agents=3, rounds=3)))
    with saved(tmp_path) as saver:
        graph = debating(lonely(protocol, PayloadStore(store.root)), agents=3, rounds=3, saver=saver)
        for done, _ in enumerate(graph.stream(QUESTION, THREAD, stream_mode="values", durability="sync")):
            if done == 5:
                break
    with saved(tmp_path) as saver:
        graph = debating(lonely(protocol, PayloadStore(store.root)), agents=3, rounds=3, saver=saver)
        assert graph.get_state(THREAD).next
        assert outcome(graph.invoke(None, THREAD, output_keys=KEYS)) == unbroken


def test_a_context_that_asks_for_another_graph_is_refused_before_anybody_speaks() -> None:
    model = marked(3, 2)
    graph = debating(model, rounds=2)
    for context, expected in [
        ({"agents": 3}, "the context asks for 3 agents, but this graph was built with 2 agents"),
        ({"summarise": "shared"}, "the context asks for a shared summary, but this graph was built with no shared"),
    ]:
        with pytest.raises(UsageError, match=expected):
            graph.invoke(QUESTION, context=context)
    assert not model.calls


# Forks


def before_round(graph: Graph, round: int) -> Any:
    """The checkpoint at which the agents of a round are about to speak."""
    return next(
        snapshot
        for snapshot in graph.get_state_history(THREAD)
        if "agent_1" in snapshot.next and snapshot.values["round"] == round
    )


def edited(snapshot: Any, agent: str, **changes: Any) -> dict[str, Any]:
    """A message as Studio shows it, changed by hand."""
    (message,) = (each for each in board(snapshot.values) if each.agent == agent)
    wire: dict[str, Any] = plain({**message.to_dict(), **changes})
    return wire


def test_an_edited_message_is_read_in_its_new_words(store: PayloadStore) -> None:
    model = Recording(protocol="cipher", preloaded=lonely_loaded(), store=store, max_tokens=6)
    graph = debating(model, rounds=2, answer_turn="off", saver=InMemorySaver())
    held(graph, THREAD)
    snapshot = before_round(graph, 1)
    model.requests.clear()
    edit = edited(snapshot, "agent_1", text="The answer is 9.", attempt=1)
    forked = graph.update_state(snapshot.config, {"board": [edit]}, as_node="next_round")
    state = graph.invoke(None, forked, output_keys=KEYS)
    spoken = [message for message in board(state) if (message.round, message.agent) == (0, "agent_1")]
    assert [(message.text, message.latent is None) for message in spoken][1] == ("The answer is 9.", True)
    # Each prompt reads the own and the other's answer: of two messages only the one that nobody edited is latent.
    assert [[isinstance(piece, Rows) for piece in request.prompt].count(True) for request in model.requests] == [1, 1]
    new_words = lonely_loaded().chat.ids("The answer is 9.", plain=True)
    assert all(Ids(new_words) in request.prompt for request in model.requests)


def test_the_state_beside_the_words_is_small_whatever_the_hidden_size(tmp_path: Path) -> None:
    sizes = []
    for width in (32, 256):
        folder = tmp_path / str(width)
        tiny_model(hidden_size=width).save_pretrained(folder)
        tiny_tokenizer().save_pretrained(folder)
        # Without answer turns, of which each width needs others: settings are shared by as many messages.
        settings = Debate(protocol="cipher", model=[str(folder)], max_tokens=8, rounds=2, answer_turn="off")
        graph = create_debate(settings, store=PayloadStore(folder / "store")).compile(checkpointer=InMemorySaver())
        graph.invoke(QUESTION, THREAD)
        state = graph.get_state(THREAD).values
        messages = [message.to_dict() for message in board(state)]
        words = sum(len(json.dumps(message["text"])) for message in messages)
        state = {**state, "board": messages, "messages": []}  # of the chat, which has the words again
        sizes.append((len(json.dumps(state)) - words) / len(messages))

    assert max(sizes) < 1500  # bytes a message, settings and decision included
    assert abs(sizes[0] - sizes[1]) < 50  # digits
