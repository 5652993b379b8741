"""Every scheme stopped and resumed, replayed, or with its agents in another order: the result is the same."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import permutations
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.store import PayloadStore
from sottovoce.graphs import scheme
from sottovoce.models import LoadedModel, assemble
from sottovoce.nodes.context import Models
from tests.graphs.support import KEYS, OF_CMD, QUESTION, Graph, InOrder, board, built, held, outcome
from tests.support import tiny_model, tiny_tokenizer
from tests.tables import each_row, some

SETTINGS: dict[str, dict[str, Any]] = {
    "mad": {"rounds": 2, "guide": "off"},  # the tiny models have few tokens
    "reconcile": {"agents": 2, "rounds": 1, "guide": "off"},
    "cmd": {"agents": 4, "rounds": 2},
    "madra": {"rounds": 2, "n_wiki": 2, "select_tokens": 4, "guide": "off"},
    "react": {"agents": 2, "steps": 3, "guide": "off"},
    "ia": {"rounds": 2},
    "brief": {"agents": 3, "know": "question"},
    "pipeline": {},
}
JSON = '{{"reasoning": "So.", "answer": "{}", "confidence_level": "0.9"}}'
THREAD: Any = {"configurable": {"thread_id": "1"}}


def graph_of(name: str, models: Models, saver: Any = None, **more: Any) -> Graph:
    found = scheme(name)
    settings = found.settings(**{**SETTINGS[name], **more})
    graph: Graph = found.create(settings, models=models).compile(checkpointer=saver)
    return graph


def steps(graph: Graph) -> list[Any]:
    """A thread's checkpoints from which something is left to do, first ones first."""
    return [snapshot for snapshot in graph.get_state_history(THREAD) if snapshot.next][::-1]


@cache
def exact_loaded() -> LoadedModel:
    """A model whose bits do not depend on what was read before: cipher on random weights amplifies any rounding."""
    return assemble("exact", tiny_model(max_position_embeddings=4096), tiny_tokenizer(), exact=True)


def exact(store: PayloadStore) -> HookedChatModel:
    return HookedChatModel(protocol="cipher", preloaded=exact_loaded(), store=store, max_tokens=6)


@pytest.mark.parametrize("name", some([*SETTINGS], "ia"))
def test_a_replay_from_any_step_ends_as_the_first_time(name: str, store: PayloadStore) -> None:
    graph = graph_of(name, exact(store), InMemorySaver())
    expected = outcome(held(graph, THREAD))
    found = steps(graph)
    assert len(found) > 6
    for snapshot in found[:: 2 if len(found) > 8 else 1]:  # of a long one every other
        assert outcome(graph.invoke(None, snapshot.config, output_keys=KEYS)) == expected


@pytest.mark.parametrize("name", ["reconcile", "cmd"])
def test_an_edited_message_counts_as_edited(name: str) -> None:
    says = JSON if name == "reconcile" else "The answer is {}."
    model = ScriptedChatModel({f"agent_{i}": [says.format(20 + i)] * 3 for i in range(1, 5)} | {"secretary": ["22."]})
    graph = graph_of(name, model, InMemorySaver(), rounds=1 if name == "reconcile" else 2)
    graph.invoke(QUESTION, THREAD, interrupt_after=["vote"])
    message = board(graph.get_state(THREAD).values)[1]
    edited = replace(message, text=says.format(77), attempt=1)
    graph.update_state(THREAD, {"board": [edited]}, as_node="vote")
    graph.invoke(None, THREAD)
    heard = [asked for asked in model.calls if asked.round == 1 and asked.agent not in ("agent_2", "secretary")]
    assert heard and all("thinks the answer is 77" in asked.text and "is 22" not in asked.text for asked in heard)


def test_representatives_go_on_after_a_stop_between_levels() -> None:
    said = {f"agent_{i}": [f"The answer is {20 + (i > 2)}."] * 3 for i in range(1, 5)}
    graph = graph_of("cmd", ScriptedChatModel(said), InMemorySaver(), secretary=False, rounds=1)
    first = graph.invoke(QUESTION, THREAD, interrupt_after=["send_representatives"], output_keys=[*KEYS, *OF_CMD])
    assert (first["level"], first["groups"]) == (1, [["agent_1", "agent_3"]])
    last = graph.invoke(None, THREAD, output_keys=[*KEYS, *OF_CMD])
    assert last["decision"]["answer"] == "20" and last["level"] == 1


STATED = '{{"reasoning": "So.", "answer": "{}", "confidence_level": "0.{}"}}'
WORDS = "{}.{} The answer is {}."
SIDE_BY_SIDE: dict[str, dict[str, Any]] = {
    "debate": {"agents": 3, "rounds": 3},
    "reconcile": {"agents": 3, "rounds": 2},
    "cmd": {"agents": 4, "rounds": 3},
    "ia": {"agents": 3, "rounds": 3},
}


def replies(scheme: str, agent: int) -> list[str]:
    """Agents that never agree, and a tie at the end."""
    if scheme == "reconcile":
        return [STATED.format(20 + agent, 5 + agent + r) for r in range(3)]
    return [WORDS.format(agent, r, 20 + agent % 2) for r in range(3)]


@each_row("name", SIDE_BY_SIDE)
def test_the_order_in_which_agents_of_a_round_run_changes_no_prompt(name: str) -> None:
    agents = [f"agent_{i + 1}" for i in range(SIDE_BY_SIDE[name]["agents"])]
    script = {agent: replies(name, i) for i, agent in enumerate(agents)} | {"secretary": ["The answer is 20."]}
    found = []
    for order in list(permutations(agents))[::5]:
        model = InOrder(replies=script, order=order)
        state = held(built(name, model, **SIDE_BY_SIDE[name]))
        assert [asked.agent for asked in model.calls if asked.agent in agents] == list(order) * 3
        prompts = {(asked.agent, asked.act, asked.round): asked.turns for asked in model.calls}
        found.append((prompts, outcome(state)))
    assert len(found) > 1 and all(each == found[0] for each in found)
