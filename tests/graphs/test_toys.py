"""The frame carries a scheme that it was not made for: agents speak three times in a round, in an order of run time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.store import PayloadStore
from sottovoce.models import Rows
from tests.graphs.support import Recording
from tests.graphs.support import board as board_of
from tests.graphs.toys.palaver import Palaver, create_palaver
from tests.support import tiny_loaded
from tests.tables import some

QUESTION: Any = {"question": "How many?", "id": "q1"}
LONG: Any = {"recursion_limit": 100}


def numbered(n: int = 40) -> ScriptedChatModel:
    return ScriptedChatModel([f"{i}." for i in range(n)])


def test_agents_speak_three_times_in_a_round_in_an_order_chosen_at_run_time() -> None:
    model = numbered()
    state = create_palaver(models=model).compile().invoke(QUESTION, LONG, output_keys=["board"])
    board = board_of(state)
    assert [(each.round, each.turn) for each in board] == [(r, t) for r in range(2) for t in range(9)]
    assert Counter((each.round, each.agent) for each in board) == {
        (r, f"agent_{i}"): 3 for r in range(2) for i in (1, 2, 3)
    }
    assert [each.text for each in board] == [f"{i}." for i in range(18)]  # in order of time, not of names
    orders = [[each.agent for each in board if each.round == r] for r in range(2)]
    assert orders[0] != orders[1] and [each.agent for each in board] == [asked.agent for asked in model.calls]
    assert len({asked.options["seed"] for asked in model.calls}) == 18


@pytest.mark.parametrize("protocol", some(["cipher", "sde"], "cipher"))
def test_they_hear_one_another_under_the_words_too(protocol: str, store: PayloadStore) -> None:
    loaded = tiny_loaded(max_position_embeddings=2048)
    model = Recording(protocol=protocol, preloaded=loaded, store=store, max_tokens=4, temperature=0.7)
    graph = create_palaver(Palaver(agents=2, rounds=1), models=model).compile()
    board = board_of(graph.invoke(QUESTION, LONG, output_keys=["board"]))
    assert len(board) == 6 and all(message.payload is not None for message in board)
    carried = [
        sum(isinstance(piece, Rows) for piece in each.prompt) if protocol == "cipher" else len(each.edits)
        for each in model.requests
    ]
    speakers = [message.agent for message in board]
    silent = {i for i, message in enumerate(board) if not len(message.payload.load(store))}  # type: ignore[union-attr]
    for i, agent in enumerate(speakers):
        told = [j for j in range(i) if j not in silent and (protocol == "cipher" or speakers[j] != agent)]
        assert carried[i] == len(told)  # cipher reads its own rows again, sde others' deltas
