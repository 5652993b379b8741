"""With `reuse` "approximate", messages are not read but pasted with their speakers' keys and values."""

from __future__ import annotations

from typing import Any

import pytest

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.channels.message import MessageRef
from sottovoce.channels.protocol import Protocol, quoting
from sottovoce.channels.store import PayloadStore
from sottovoce.core.errors import UsageError
from sottovoce.models import Ids, load
from sottovoce.nodes.setup import REUSED
from sottovoce.settings import Debate
from tests.graphs.support import State, board, debating, held
from tests.tables import some

QUESTION = "What is 17 + 4 * 9?"


def debate(protocol: str, reuse: Any, store: PayloadStore) -> State:
    """A debate on an engine of its own; what is reused depends on who is read first, and on how prompts begin."""
    loaded = load(device="cpu")
    model = HookedChatModel(
        preloaded=loaded.varied(engine=loaded.engine.twin(reuse=reuse)), protocol=protocol, max_tokens=40
    )
    told: dict[str, Any] = {"temperature": [0.7, 1.0], "system": ["Add.", "Multiply."]}
    graph = debating(model, store=store, agents=2, rounds=3, **told)
    return held(graph, {"max_concurrency": 1}, question=QUESTION)


def reused(state: State) -> float:
    return sum(message.stats["tokens_reused"] for message in board(state))


@pytest.mark.parametrize("protocol", some(["nl", "cipher", "sde"], "cipher"))
def test_a_debate_reads_less_and_twice_says_the_same(protocol: str, store: PayloadStore) -> None:
    exact, first, second = (debate(protocol, reuse, store) for reuse in ("exact", "approximate", "approximate"))
    words = [[message.text for message in board(state)] for state in (exact, first, second)]
    assert words[1] == words[2] and reused(first) == reused(second)
    assert words[0][:2] == words[1][:2]  # nothing is heard before
    assert reused(first) > reused(exact) + 10
    assert REUSED in first["notes"] and REUSED not in exact["notes"]


def test_messages_of_other_questions_and_other_tokens_are_no_quotes(store: PayloadStore) -> None:
    (message, *_) = board(debate("nl", "approximate", store))
    assert message.payload is not None
    payload, loaded = message.payload.load(), load(device="cpu")
    piece, _ = Protocol().encode_message(MessageRef(message), payload, loaded)
    found = quoting(piece, MessageRef(message), payload)
    assert isinstance(found, Ids) and found.quote is not None and found == piece
    assert found.quote.at == tuple(range(len(payload)))
    assert quoting(piece, MessageRef(message, donors=(message.payload,)), payload) is piece
    other = Ids((*payload.ids[1:], payload.ids[0] + 1))
    assert quoting(other, MessageRef(message), payload) is other


def test_settings_rule_out_both_exact_results_and_approximate_reuse() -> None:
    with pytest.raises(UsageError, match="reuse is 'approximate', which exact rules out; leave one of them out"):
        Debate(exact=True, reuse="approximate")
