"""The frame carries schemes that it was not made for: three toys, each one file of the public frame alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import Message
from sottovoce.channels.store import PayloadStore
from sottovoce.models import Rows
from sottovoce.nodes.watch import Intervention
from tests.graphs.support import Recording
from tests.graphs.support import board as board_of
from tests.graphs.toys.library import create_library
from tests.graphs.toys.palaver import Palaver, create_palaver
from tests.graphs.toys.pond import create_pond
from tests.support import tiny_loaded

QUESTION: Any = {"question": "How many?", "id": "q1"}
LONG: Any = {"recursion_limit": 100}


def numbered(n: int = 40) -> ScriptedChatModel:
    return ScriptedChatModel([f"{i}." for i in range(n)])


# Agents that speak three times in a round, in an order chosen at run time


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


@pytest.mark.parametrize("protocol", ["cipher", "sde"])
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


# A watched world, taken back once


class Greedy:
    """Takes the discussion back, or asks again, the first time that somebody takes nine fish."""

    def __init__(self, what: Any = "reset") -> None:
        self.what = what

    def __call__(self, run: Any, state: Any, messages: Sequence[Message]) -> Intervention | None:
        if messages[-1].text != "9" or state["resets"]:
            return None
        return Intervention(self.what, "too greedy", {"resets": state["resets"] + 1})


def fishing() -> ScriptedChatModel:
    return ScriptedChatModel({"agent_1": ["1", "9", "2", "1", "1"], "agent_2": ["1", "1", "2", "1", "1"]})


KEYS = ["board", "fish", "resets", "epochs", "decision", "pending"]


def test_a_reset_restores_the_world_and_keeps_the_counter() -> None:
    model = fishing()
    graph = create_pond(models=model, watch=Greedy()).compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}, **LONG}
    state = graph.invoke(QUESTION, config, output_keys=KEYS)
    assert (state["fish"], state["resets"], state["epochs"], state["pending"]) == (2, 1, [[1, 0]], {})
    told = [asked.text.split(".")[0].removeprefix("[user]\nThere are ") for asked in model.calls]
    assert told == ["10 fish"] * 2 + ["8 fish"] * 4 + ["4 fish"] * 2


# Agents that select passages and then answer


def test_agents_select_passages_and_then_answer_in_one_turn() -> None:
    model = ScriptedChatModel(
        {
            "agent_1": ["2", "the answer is 5.", "all", "1 2", "the answer is 6."],
            "agent_2": ["1", "the answer is 7.", "1", "the answer is 7."],
        }
    )
    documents = ["Ada has 3 cats.", {"title": "Ben", "text": "Ben has 4 cats."}]
    graph = create_library(models=model).compile()
    state = graph.invoke({**QUESTION, "documents": documents}, LONG, output_keys=["board", "decision"])
    first = [(each.agent, each.act, each.attempt) for each in board_of(state) if each.round == 0]
    assert first == [(agent, act, 0) for agent in ("agent_1", "agent_2") for act in ("select", "answer")]
    again = [each.attempt for each in board_of(state) if (each.agent, each.act, each.round) == ("agent_1", "select", 1)]
    assert again == [0, 1]
    selecting, answering = [asked for asked in model.calls if asked.agent == "agent_1"][:2]
    assert "[1] Ada has 3 cats.\n[2] Ben: Ben has 4 cats." in selecting.text
    assert "Ben has 4 cats." in answering.text and "Ada" not in answering.text
    assert (
        answering.options["prefill"] == "I found that " and selecting.options["response_format"]["pattern"] == r"[\d ]+"
    )
    last = [asked for asked in model.calls if asked.agent == "agent_2"][-1]
    assert "Others say: I found that the answer is 5." in last.text
    assert [vote["agent"] for vote in state["decision"]["votes"]] == ["agent_1", "agent_2"]
    assert [vote["answer"] for vote in state["decision"]["votes"]] == ["6", "7"]
