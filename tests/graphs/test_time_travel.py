"""From every checkpoint of a finished debate the same end is reached, to the bit: words, tokens, votes, decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from sottovoce.channels.store import PayloadStore
from sottovoce.graphs.debate import create_debate
from sottovoce.settings import Debate
from tests.graphs.support import QUESTION, Graph

THREAD: Any = {"configurable": {"thread_id": "1"}}


def finished(agents: int, store: PayloadStore) -> tuple[Graph, list[Any]]:
    """A debate by CIPHER that was held, and its checkpoints from which something is left to do."""
    settings = Debate(protocol="cipher", exact=True, agents=agents, rounds=3, max_tokens=8, answer_turn=False)
    graph = create_debate(settings, store=store).compile(checkpointer=InMemorySaver())
    graph.invoke(QUESTION, THREAD)
    return graph, [snapshot for snapshot in graph.get_state_history(THREAD) if snapshot.next]


def end(graph: Graph, store: PayloadStore) -> tuple[object, ...]:
    """How the thread ends now: the digest of a payload is that of its tokens, spans and hidden rows."""
    state = graph.get_state(THREAD).values
    said = [(each.place, each.text, each.payload.load(store).ids, each.payload.sha256) for each in state["board"]]
    return said, state["votes"], state["decision"], state["settings"]


def alike_from(graph: Graph, snapshots: Sequence[Any], store: PayloadStore) -> None:
    expected = end(graph, store)
    for snapshot in snapshots:
        graph.invoke(None, snapshot.config)
        assert end(graph, store) == expected, snapshot.next


def test_from_three_steps_of_a_debate_the_end_is_the_same(store: PayloadStore) -> None:
    graph, snapshots = finished(2, store)
    assert len(snapshots) == 12  # the input, its question, three rounds of three steps, the decision
    alike_from(graph, snapshots[1::5], store)


@pytest.mark.slow
def test_from_every_step_of_a_debate_the_end_is_the_same(store: PayloadStore) -> None:
    graph, snapshots = finished(3, store)
    alike_from(graph, snapshots, store)
