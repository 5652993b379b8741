"""How a debate is decided: the rules, their ties, and what an unreadable answer does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import Message
from sottovoce.channels.payload import Label, Payload
from sottovoce.channels.store import PayloadStore
from sottovoce.nodes.decide import entropy_of, majority, read_vote
from sottovoce.nodes.state import Decision, Vote
from tests.graphs.support import Recording, board, debating, held, lonely_loaded
from tests.tables import each_row

SILENT = "Hm."


def decided(said: list[str], *, question: dict[str, Any] | None = None, **settings: Any) -> Decision:
    """How a debate of one round ends in which each agent says one of `said`, and is asked no more."""
    model = ScriptedChatModel({f"agent_{i + 1}": [text] for i, text in enumerate(said)})
    graph = debating(model, **{"agents": len(said), "rounds": 1, "answer_turn": "off", **settings})
    decision: Decision = held(graph, **(question or {}))["decision"]
    return decision


@each_row(
    ("said", "answer", "why"),
    [
        (["5", "7", "7"], "7", "2 of 3 say 7"),
        (["5", "7"], "5", "1 of 2 say 5; a tie of 2 answers, agent_1 spoke first"),
        (["9", "5", "7", "7", "5"], "5", "2 of 5 say 5; a tie of 2 answers, agent_2 spoke first"),
        ([SILENT, "7", "5"], "7", "1 of 3 say 7; a tie of 2 answers, agent_2 spoke first"),
        ([SILENT, SILENT, "5"], "5", "1 of 3 say 5"),
        ([SILENT, ""], None, "no answer could be read: all abstained"),
        (["22.0", "$22", "7", "7"], "22", "2 of 4 say 22; a tie of 2 answers, agent_1 spoke first"),
    ],
)
def test_the_majority_is_the_most_frequent_answer_and_of_several_the_first(
    said: list[str], answer: str | None, why: str
) -> None:
    decision = decided(said)
    assert (decision["answer"], decision["why"], decision["rule"]) == (answer, why, "majority")


@pytest.mark.parametrize(
    ("kind", "said", "answer"),
    [
        ("option", ["(B)", "The answer is (C).", "B"], "B"),
        ("yes_no", ["The answer is no.", "The answer is No.", "The answer is yes."], "no"),
        ("label", ["[Unknown]", "so [unknown]", "[Correct]"], "unknown"),
        ("text", ["[the Eiffel Tower]", "[Eiffel tower]", "[Paris]"], "the Eiffel Tower"),
    ],
)
def test_answers_of_each_kind_are_pooled_as_that_kind(kind: str, said: list[str], answer: str) -> None:
    choices = ["red", "blue", "green"] if kind == "option" else []
    decision = decided(said, question={"kind": kind, "choices": choices})
    assert (decision["answer"], decision["why"]) == (answer, f"2 of 3 say {answer}")


def test_an_unreadable_answer_abstains_and_keeps_its_words_on_the_board() -> None:
    model = ScriptedChatModel({"agent_1": [SILENT], "agent_2": ["5"]})
    state = held(debating(model, rounds=1, answer_turn="off"), target="5")
    assert state["decision"]["votes"] == [
        {"agent": "agent_1", "answer": None, "counts": False},
        {"agent": "agent_2", "answer": "5", "counts": True, "read": "bare"},
    ]
    assert board(state)[0].text == SILENT


@pytest.mark.parametrize(
    ("temperatures", "answer", "why"),
    [
        ([0.5, 0.2, 0.9], "2", "agent_2 has the lowest temperature"),
        ([0.5, 0.2, 0.2], "2", "agent_2 is the first with the lowest temperature"),
        ([0.0, 0.0, 0.0], "1", "agent_1 is the first with the lowest temperature"),
    ],
)
def test_the_lowest_temperature_decides_and_of_several_the_first(
    temperatures: list[float], answer: str, why: str
) -> None:
    decision = decided(["1", "2", "3"], rule="lowest_temperature", temperature=temperatures)
    assert (decision["answer"], decision["why"]) == (answer, why)
    assert [vote["agent"] for vote in decision["votes"] if vote["counts"]] == [why.partition(" ")[0]]


@pytest.mark.parametrize(
    ("said", "score"), [(["5", "7", "5", SILENT], 0.5), ([SILENT, SILENT], 0.0), (["5.0", "5"], 1.0)]
)
def test_the_average_is_the_share_of_right_agents_and_no_answer(said: list[str], score: float) -> None:
    decision = decided(said, rule="average", question={"target": "5"})
    assert (decision["answer"], decision["score"], decision["rule"]) == (None, score, "average")
    assert len(decision["votes"]) == len(said)


@each_row(
    ("target", "said", "score"),
    [("7", ["7", "7"], 1.0), ("7.0", ["7"], 1.0), ("8", ["7"], 0.0), (None, ["7"], None), ("8", [SILENT], 0.0)],
)
def test_one_answer_scores_one_or_nothing(target: str | None, said: list[str], score: float | None) -> None:
    assert decided(said, question={} if target is None else {"target": target})["score"] == score


def test_an_abstention_is_not_right_even_where_the_target_is_unknown_too() -> None:
    decision = decided([SILENT], question={"kind": "text", "target": "unknown"})
    assert (decision["answer"], decision["score"]) == (None, 0.0)


@each_row(
    ("text", "how"),
    [("Answer: 5", "marked"), (r"So \boxed{5}.", "boxed"), ("5", "bare"), ("2 and 3 are 5.", None), ("Hm.", None)],
)
def test_a_vote_says_how_its_answer_was_read(text: str, how: str | None) -> None:
    vote = read_vote(Message("agent_1", 0, "answer", text), {"question": "What is 2 + 3?"})

    assert vote.get("read") == how


def votes(*entropies: float | None) -> list[Vote]:
    """One vote for 1, 2, ... each, whose answer has this entropy."""
    cast: list[Vote] = [{"agent": f"agent_{i}", "answer": f"{i}", "counts": True} for i in range(1, len(entropies) + 1)]
    return [
        vote if entropy is None else {**vote, "entropy": entropy} for vote, entropy in zip(cast, entropies, strict=True)
    ]


@pytest.mark.parametrize(
    ("entropies", "answer", "why"),
    [
        ((0.8, 0.25), "2", "agent_2 is the most certain: 0.25 nats a token, the next 0.80"),
        ((0.3, 0.3), "1", "agent_1 spoke first"),
        ((0.8, None), "1", "agent_1 spoke first"),
        ((None, None), "1", "agent_1 spoke first"),
    ],
)
def test_a_tie_is_won_by_the_more_certain_answer_where_all_entropies_are_known(
    entropies: tuple[float | None, ...], answer: str, why: str
) -> None:
    decision = majority(votes(*entropies), {"question": "How many?", "kind": "number"})

    assert (decision["answer"], decision["why"]) == (answer, f"1 of 2 say {answer}; a tie of 2 answers, {why}")


@pytest.mark.parametrize(
    ("text", "answer", "entropy"), [("6 or 7, so 7", "7", 5.0), ("6 or 7, so 7", "seven", 3.0), ("7", "7", 1.0)]
)
def test_the_entropy_of_an_answer_is_that_of_its_last_mention_else_of_the_reply(
    text: str, answer: str, entropy: float, tmp_path: Path
) -> None:
    store = PayloadStore(tmp_path)
    words = [*re.finditer(r"\S+", text)]
    tensors = {
        "ids": torch.arange(len(words)),
        "spans": torch.tensor([word.span() for word in words]),
        "entropy": torch.arange(len(words)) + 1.0,
    }
    ref = store.put(Payload(Label("nl", text, "", "", ""), tensors))

    assert entropy_of(Message("agent_1", 0, "answer", text, payload=ref), answer, store) == entropy
    assert entropy_of(Message("agent_1", 0, "answer", text), answer, store) is None


def test_a_debate_of_local_models_can_break_ties_by_certainty(tmp_path: Path) -> None:
    model = Recording(preloaded=lonely_loaded(), store=PayloadStore(tmp_path), max_tokens=2, temperature=1.0)

    decision = held(debating(model, rounds=1, tie="certain"), kind="yes_no")["decision"]

    assert all("entropy" in vote for vote in decision["votes"] if vote["counts"])
    assert any(vote["counts"] for vote in decision["votes"])
