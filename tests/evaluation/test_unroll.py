"""Unrolled discussions are what the graphs do: their calls and edges, held against what a model was really asked."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sottovoce.agents.scripted import Asked, ScriptedChatModel
from sottovoce.channels.message import Heard, Message
from sottovoce.evaluation.calls import Call, Unrolled
from sottovoce.evaluation.symmetry import symmetry
from sottovoce.evaluation.unroll import unroll
from sottovoce.graphs import scheme
from sottovoce.nodes.samples import Sample, Samples
from sottovoce.nodes.settings import Settings
from sottovoce.nodes.summarise import SUMMARISER

ASKED = "How many?"
QUESTION = {"question": ASKED, "id": "q1", "solution": "said-8001", "decoys": ["said-8002"]}
CASES: list[tuple[str, dict[str, Any]]] = [  # Any: settings of every scheme
    ("single", {}),
    ("self_consistency", {"samples": 3}),
    ("debate", {}),
    ("debate", {"agents": 4, "rounds": 2}),
    ("debate", {"agents": 1}),
    ("debate", {"agents": 3, "rounds": 1}),
    ("debate", {"agents": 3, "shape": "fresh"}),
    ("debate", {"agents": 3, "order": "own_first"}),
    ("debate", {"agents": 3, "summarise": "each"}),
    ("debate", {"agents": 3, "summarise": "shared"}),
    ("debate", {"agents": 3, "role": ["debater", "expert", "dummy"]}),
    ("debate", {"agents": 3, "rule": "lowest_temperature", "temperature": [1, 0.2, 0.5]}),
    ("debate", {"agents": 3, "last_round": "deciding", "summarise": "each"}),
    ("debate", {"agents": 4, "system": ["be bold", "doubt", "doubt", "doubt"]}),
    ("mad", {}),
    ("mad", {"agents": 4}),
    ("mad", {"rounds": 1}),
    ("mad", {"judge_sees": "first"}),
    ("mad", {"agents": 3, "judge_sees": "last"}),
    ("reconcile", {}),
    ("reconcile", {"agents": 5, "rounds": 1}),
    ("reconcile", {"rounds": 0}),
    ("reconcile", {"vote": "plain"}),
    ("reconcile", {"convincing": ["A"]}),
    ("reconcile", {"convincing": ["A", "A", "B"]}),
    ("reconcile", {"convincing": ["A", "A", "B"], "convincing_in": "discussion"}),
    ("cmd", {}),
    ("cmd", {"agents": 7, "rounds": 2}),
    ("cmd", {"agents": 4, "system": ["be bold", "doubt", "doubt", "doubt"]}),
    ("cmd", {"agents": 2, "rounds": 1}),
    ("cmd", {"agents": 1}),
    ("cmd", {"agents": 3, "secretary": False}),
    ("cmd", {"secretary": False, "representative": "first"}),
    ("cmd", {"agents": 12, "rounds": 2, "secretary": False, "representative": "first"}),
]
OPEN: list[dict[str, Any]] = [{"representative": "tied"}, {"representative": "random", "agents": 7}]
ACTS = {
    "shared/answer": "answer",
    "cmd/agent": "answer",
    "mad/oppose": "answer",
    "debate/summarise": "summarise",
    "mad/moderate": "moderate",
    "mad/candidates": "list_candidates",
    "mad/judge": "judge",
    "cmd/secretary": "decide",
}
GIVEN = ("expert", "dummy")
Key = tuple[str, int, str]
"""Agent, round and act, as messages stand on the board."""


@dataclass
class Held:
    """A discussion as it was held."""

    asked: list[tuple[Key, Asked]]
    edges: set[tuple[Key, Key, str]]
    deciding: set[str]


def replies(names: list[str]) -> dict[str, list[str]]:
    """No two are equal, so agents disagree; the moderator leaves it open; every scheme can read them.

    Each holds a word and, apart from it, an answer, so that a prompt with the answer alone is told from one with both.
    """

    def reply(number: int, name: str) -> str:
        verdict = "" if name == "moderator" else str(number)
        read = {"reasoning": f"said-{number}", "confidence_level": 0.5, "answer": str(number), "debate_answer": verdict}
        return f"{json.dumps(read)} The answer is {number}."

    return {name: [reply(1000 + 100 * seat + k, name) for k in range(20)] for seat, name in enumerate(names)}


def hold(name: str, settings: Settings) -> Held:
    """Run the graph, and read from every prompt whom its agent hears that it had not read before."""
    model = ScriptedChatModel(replies(settings.names()))
    state = scheme(name).create(settings, models=model).compile().invoke(QUESTION, output_keys=["board", "decision"])
    asked = [(asked_key(each, getattr(settings, "summarise", "none")), each) for each in model.asked]
    read: dict[str, set[tuple[Key, str]]] = {}
    edges = set()
    for key, each in asked:
        memory = read.setdefault(key[0], set())
        new = heard_in(each, key, state["board"]) - memory
        memory |= new
        edges |= {(speaker, key, carries) for speaker, carries in new}
    decision = state["decision"]
    deciding = {vote["agent"] for vote in decision["votes"] if vote["counts"]} | {decision.get("by")} - {None}
    return Held(asked, edges, deciding)


def asked_key(asked: Asked, summarise: str) -> Key:
    """A summary is filed under the round that it is of, and a shared one under no agent."""
    if asked.act != "summarise":
        return asked.agent, asked.round, asked.act
    return SUMMARISER if summarise == "shared" else asked.agent, max(m.round for m in messages_in(asked)), asked.act


def messages_in(asked: Asked) -> list[Message]:
    """The others' messages that a prompt holds."""
    return [part.message for turn in asked.turns for part in turn.parts if isinstance(part, Heard) and not part.own]


def own_words(asked: Asked) -> str:
    """A prompt without the messages in it."""
    return "\n".join(part if isinstance(part, str) else "..." for turn in asked.turns for part in turn.parts)


def heard_in(asked: Asked, hearer: Key, board: list[Message]) -> set[tuple[Key, str]]:
    """Whose messages, or whose answers alone, a prompt holds; "pasted" is text that is no message in it."""
    heard = {(m.agent, m.round, m.act): "summary" if m.act == "summarise" else "full" for m in messages_in(asked)}
    for message in board:
        key, number = (message.agent, message.round, message.act), re.findall(r"\d{4}", message.text)[0]
        if f"said-{number}" in own_words(asked):
            heard[key] = "pasted"
        elif key not in heard and number in own_words(asked) and message.agent != hearer[0]:
            heard[key] = "viewpoint"
    return set(heard.items())


def call_key(call: Call) -> Key:
    """A call as the board names it."""
    return call.agent, call.round, ACTS.get(call.prompt.split("; ")[0], "revise" if call.round else "answer")


def edges_of(unrolled: Unrolled) -> set[tuple[Key, Key, str]]:
    """The edges between calls."""
    return {(call_key(e.speaker), call_key(e.hearer), e.carries) for e in unrolled.edges if e.speaker and e.hearer}


@pytest.fixture(autouse=True)
def samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files of convincing samples, by the names that CASES have."""
    for name in ("A", "B"):
        sample = Sample(question=f"Of {name}?", explanation="So.", answer="7", before=None, after="7")
        (tmp_path / name).write_text(Samples(model=name, samples=[sample]).to_json())
    monkeypatch.chdir(tmp_path)


def made(name: str, values: dict[str, Any]) -> tuple[Unrolled, Held]:
    settings = scheme(name).settings(**values)
    return unroll(name, settings), hold(name, settings)


def of(case: tuple[str, dict[str, Any]]) -> str:
    return " ".join([case[0], *(f"{name}={value}" for name, value in case[1].items())])


@pytest.mark.parametrize(("name", "values"), CASES, ids=map(of, CASES))
def test_the_calls_and_edges_are_those_of_the_graph(name: str, values: dict[str, Any]) -> None:
    unrolled, held = made(name, values)

    assert Counter(key for key, _ in held.asked) == Counter(
        call_key(c) for c in unrolled.calls if c.prompt not in GIVEN
    )
    assert held.edges == edges_of(unrolled)
    assert held.deciding == {edge.speaker.agent for edge in unrolled.edges if edge.speaker and not edge.hearer}
    assert all(ASKED in asked.text for _, asked in held.asked)
    assert not unrolled.left_out


@pytest.mark.parametrize("values", OPEN, ids=lambda values: values["representative"])
def test_levels_that_depend_on_the_answers_are_left_out_and_named(values: dict[str, Any]) -> None:
    unrolled, held = made("cmd", {"secretary": False, "rounds": 2, **values})

    assert {key for key, _ in held.asked if key[1] < 2} == {call_key(call) for call in unrolled.calls}
    assert {edge for edge in held.edges if edge[1][1] < 2} == edges_of(unrolled)
    assert max(asked.round for _, asked in held.asked) > 1
    assert unrolled.left_out.startswith("the levels above the first")


@pytest.mark.parametrize(("name", "values"), CASES, ids=map(of, CASES))
def test_agents_that_can_change_places_are_told_the_same_but_for_answers(name: str, values: dict[str, Any]) -> None:
    unrolled, held = made(name, values)
    told = {key: re.sub(r"\d{4}", "#", own_words(asked)) for key, asked in held.asked}

    for orbit in symmetry(unrolled).orbits:
        for agent, round, act in told:
            if agent in orbit:
                assert {told[other, round, act] for other in orbit} == {told[agent, round, act]}


def test_agents_that_are_told_different_things_have_different_prompts() -> None:
    unrolled, held = made("cmd", {"agents": 3, "system": ["be bold", "doubt", "doubt"]})
    told = {key: own_words(asked) for key, asked in held.asked}

    assert told["agent_1", 0, "answer"] != told["agent_2", 0, "answer"] == told["agent_3", 0, "answer"]
    assert symmetry(unrolled).orbits == (("agent_1",), ("agent_2", "agent_3"))
