"""With `exact`, a debate comes out equal to the bit whatever runs beside it (the bundled model, float32, one CPU)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.channels.store import PayloadStore
from sottovoce.core.any_types import AnyState
from sottovoce.models import load
from tests.graphs.support import State, board, debating, held
from tests.tables import some

PROTOCOLS = ["nl", "cipher", "sde", "hidden"]
EXACT: AnyState = {"exact": True, "device": ["cpu"], "rounds": 2, "max_tokens": 40}


def said(state: State) -> list[tuple[object, str, tuple[int, ...], str]]:
    """Every message: its place, its words, its ids, and the digest of all that it carries."""
    found: list[tuple[object, str, tuple[int, ...], str]] = []
    for message in board(state):
        assert message.payload is not None
        found.append((message.place, message.text, message.payload.load().ids, message.payload.sha256))
    return found


def beside(store: PayloadStore, i: int) -> State:
    """A debate of other agents, lengths and temperatures, every fourth on an inexact engine of the same weights."""
    settings = EXACT | {
        "answer_turn": "off",
        "exact": i % 4 != 3,
        "agents": 1 + i % 3,
        "max_tokens": 20 + 7 * i,
        "temperature": [0.3 * i],
    }
    question = f"What is {i} + {3 * i} * {i + 2}" + " - 1" * i + "?"
    graph = debating(protocol=PROTOCOLS[i % 4], store=store, seed=i, **settings)
    return held(graph, question=question, id=f"beside {i}")


@pytest.mark.parametrize("protocol", some(PROTOCOLS, "cipher"))
def test_a_debate_is_equal_to_the_bit_alone_and_beside_others(protocol: Any, store: PayloadStore) -> None:
    loaded = load(device="cpu", exact=True)
    fresh = HookedChatModel(
        preloaded=loaded.varied(engine=loaded.engine.twin(exact=True)), protocol=protocol, max_tokens=40
    )
    alone = said(held(debating(fresh, store=store, rounds=2)))
    graph, statistics = debating(protocol=protocol, store=store, **EXACT), loaded.engine.statistics
    statistics.widest = 0

    with ThreadPoolExecutor(6) as pool:
        others = [pool.submit(beside, store, i) for i in range(2)]
        found = pool.submit(held, graph)
        others += [pool.submit(beside, store, i) for i in range(2, 5)]
    assert [len(board(other.result())) for other in others] == [2 * (1 + i % 3) for i in range(5)]
    assert statistics.widest > 4  # they did run together
    assert said(found.result()) == alone
    assert said(held(graph)) == alone  # what was read before is taken over
