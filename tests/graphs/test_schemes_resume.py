"""A scheme and a world replayed from any step, or with agents in another order: the result is the same."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import permutations
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.store import PayloadStore
from sottovoce.graphs import scheme
from sottovoce.models import LoadedModel, assemble
from sottovoce.nodes.context import Models
from tests.graphs.support import QUESTION, THREAD, Graph, InOrder, board, built, held, outcome
from tests.runs.schemes import LIVED
from tests.runs.support import RecordedChatModel
from tests.support import tiny_model, tiny_tokenizer
from tests.tables import each_row


def steps(graph: Graph) -> list[Any]:
    """A thread's checkpoints from which something is left to do, first ones first."""
    return [snapshot for snapshot in graph.get_state_history(THREAD) if snapshot.next][::-1]


@cache
def exact_loaded() -> LoadedModel:
    """A model whose bits do not depend on what was read before: cipher on random weights amplifies any rounding."""
    return assemble("exact", tiny_model(max_position_embeddings=4096), tiny_tokenizer(), exact=True)


def exact(store: PayloadStore) -> HookedChatModel:
    return HookedChatModel(protocol="cipher", preloaded=exact_loaded(), store=store, max_tokens=6)


def cmd(models: Models, **more: Any) -> Graph:
    """A discussion of four agents whose representatives go on, with a saver."""
    return built("cmd", models, saver=InMemorySaver(), **{"agents": 4, "rounds": 2, **more})


def test_a_replay_from_any_step_of_a_scheme_ends_as_the_first_time_to_the_bit(store: PayloadStore) -> None:
    graph = cmd(exact(store))

    def end() -> Any:
        state = graph.get_state(THREAD).values
        return outcome(state), [message.payload and message.payload.sha256 for message in board(state)]

    held(graph, THREAD)
    expected, found = end(), steps(graph)
    assert len(found) > 6
    for snapshot in found[::3]:
        graph.invoke(None, snapshot.config)
        assert end() == expected


def test_a_replay_from_any_step_of_a_world_ends_as_the_first_time() -> None:
    settings, replies = LIVED
    saver = InMemorySaver()
    graph = scheme("govsim").create(settings, models=ScriptedChatModel(replies)).compile(checkpointer=saver)
    held(graph, THREAD)
    expected, found = outcome(graph.get_state(THREAD).values), steps(graph)
    said = {("1", message.place): message for message in board(graph.get_state(THREAD).values)}
    again = scheme("govsim").create(settings, models=RecordedChatModel(said=said)).compile(checkpointer=saver)
    assert len(found) == 18  # two months
    for snapshot in found[::4]:
        again.invoke(None, snapshot.config)
        assert outcome(again.get_state(THREAD).values) == expected


def test_an_edited_message_counts_as_edited() -> None:
    said = {f"agent_{i}": [f"The answer is {20 + i}."] * 3 for i in range(1, 5)}
    model = ScriptedChatModel({**said, "secretary": ["22."]})
    graph = cmd(model)
    graph.invoke(QUESTION, THREAD, interrupt_after=["vote"])
    message = board(graph.get_state(THREAD).values)[1]
    edited = replace(message, text="The answer is 77.", attempt=1)
    graph.update_state(THREAD, {"board": [edited]}, as_node="vote")
    graph.invoke(None, THREAD)
    heard = [asked for asked in model.calls if asked.round == 1 and asked.agent not in ("agent_2", "secretary")]
    assert heard and all("thinks the answer is 77" in asked.text and "is 22" not in asked.text for asked in heard)


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
