"""The debate with scripted replies: who hears what and when, and how many calls are made for it."""

from __future__ import annotations

from typing import Any

import pytest

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import MessageRef
from sottovoce.core.errors import UsageError
from tests.graphs.support import board, calls, debating, heard, held, marked, script, texts

NAMES = ["agent_1", "agent_2", "agent_3"]


# Who hears what (Du et al.; CIPHER, appendix B)


def test_every_round_hears_all_others_of_the_round_before_in_order_and_nothing_of_its_own() -> None:
    model = marked(3, 3)
    held(debating(model, agents=3, rounds=3))
    for name in NAMES:
        others = [other for other in NAMES if other != name]
        for round, asked in enumerate(calls(model, name)[1:], start=1):
            assert asked.round == round
            assert heard(asked, -1) == [(other, round - 1) for other in others]
            latest = [part.latest for part in asked.turns[-1].parts if isinstance(part, MessageRef)]
            assert latest == [True, True]


def test_an_empty_message_is_heard_as_nothing_unless_a_control_empties_all() -> None:
    for control, number in (("none", 1), ("empty", 0)):
        model = ScriptedChatModel({"agent_1": ["", ""], "agent_2": ["The answer is 22."] * 2})
        held(debating(model, rounds=2, answer_turn="off", control=control))
        last = calls(model, "agent_2")[-1]
        assert heard(last, -1) == [("agent_1", 0)] and last.text.count("(nothing)") == number


def test_the_history_is_the_chat_so_far_own_answers_as_assistant_turns() -> None:
    model = marked(3, 3)
    held(debating(model, agents=3, rounds=3))
    last = calls(model, "agent_2")[-1]
    assert [turn.role for turn in last.turns] == ["user", "assistant", "user", "assistant", "user"]
    assert heard(last) == [
        ("agent_2", 0),
        ("agent_1", 0),
        ("agent_3", 0),
        ("agent_2", 1),
        ("agent_1", 1),
        ("agent_3", 1),
    ]
    parts = [part for turn in last.turns for part in turn.parts if isinstance(part, MessageRef)]
    assert [part.latest for part in parts] == [False] * 3 + [True] * 3
    assert [part.own for part in parts] == [True, False, False] * 2
    assert [part.text for part in parts[3:]] == ["2 in 1. Answer: 1", "1 in 1. Answer: 1", "3 in 1. Answer: 1"]


def test_nobody_reads_the_target_or_the_solution() -> None:
    model = marked(2, 2)
    held(debating(model, rounds=2), target="9191", solution="The answer is 9292.", decoys=["The answer is 9393."])
    assert not [asked for asked in model.calls if "9" in asked.text]


# Summaries


def test_each_summarises_the_others_before_it_revises() -> None:
    model = ScriptedChatModel({name: [f"{name} says {i}" for i in range(9)] for name in NAMES})
    state = held(debating(model, agents=3, rounds=3, summarise="each", answer_turn="off"))
    for name in NAMES:
        others = [other for other in NAMES if other != name]
        asked = calls(model, name)
        assert [call.act for call in asked] == ["answer", "summarise", "revise", "summarise", "revise"]
        assert [heard(call) for call in asked[1::2]] == [[(other, r) for other in others] for r in (0, 1)]
        assert heard(asked[4], -1) == [(name, 2)]  # filed where it was said
        assert asked[4].turns[-1].parts[1].text == f"{name} says 3"  # type: ignore[union-attr]  # a heard message
    assert len(model.calls) == 3 * 3 + 3 * 2
    assert sorted({(message.round, message.act) for message in board(state)}) == [
        (0, "answer"),
        (1, "revise"),
        (1, "summarise"),
        (2, "revise"),
        (2, "summarise"),
    ]
    spoken = [message.act for message in board(state) if (message.agent, message.round) == ("agent_2", 2)]
    assert spoken == ["summarise", "revise"]  # in one turn: as they came


def test_one_shared_summary_of_all_answers_reaches_everybody() -> None:
    model = ScriptedChatModel({name: [f"{name} says {i}" for i in range(9)] for name in [*NAMES, "summariser"]})
    state = held(debating(model, agents=3, rounds=3, summarise="shared", answer_turn="off"))
    summaries = calls(model, "summariser", "summarise")
    assert [heard(asked) for asked in summaries] == [[(name, 0) for name in NAMES], [(name, 1) for name in NAMES]]
    assert len(model.calls) == 3 * 3 + 2
    assert [heard(calls(model, name)[-1], -1) for name in NAMES] == [[("summariser", 1)]] * 3
    assert [key for key in texts(state) if key[2] == "summarise"] == [
        (0, "summariser", "summarise"),
        (1, "summariser", "summarise"),
    ]


# Experts and dummies (CIPHER, section 5.4)


def test_an_expert_says_the_solution_every_round_without_a_call() -> None:
    model = marked(2, 3)
    state = held(debating(model, rounds=3, role=["debater", "expert"]), solution="14 + 15 - 7 = 22.", decoys=["no"])
    assert {asked.agent for asked in model.calls} == {"agent_1"}
    assert [text for (_, agent, _), text in texts(state).items() if agent == "agent_2"] == ["14 + 15 - 7 = 22."] * 3
    assert {message.source for message in board(state) if message.agent == "agent_2"} == {"expert"}


def test_a_dummy_says_the_solution_of_another_question_drawn_anew_each_round() -> None:
    decoys = [f"The answer is {i}." for i in range(50)]
    state = held(
        debating(marked(1, 6), rounds=6, agents=3, role=["debater", "dummy", "dummy"]), solution="x", decoys=decoys
    )
    first, second = (
        [text for (_, agent, _), text in texts(state).items() if agent == name] for name in ("agent_2", "agent_3")
    )
    assert set(first) | set(second) <= set(decoys)
    assert len(set(first)) > 3
    assert first != second


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("expert", "agent 'agent_2' is an expert, but the question has no 'solution'"),
        ("dummy", "agent 'agent_2' is a dummy, but the question has no 'decoys'"),
    ],
)
def test_what_an_expert_or_a_dummy_would_say_is_asked_for_before_anybody_speaks(part: str, expected: str) -> None:
    model = marked(1, 1)
    with pytest.raises(UsageError, match=expected):
        held(debating(model, rounds=1, role=["debater", part]))
    assert not model.calls


@pytest.mark.parametrize("rule", ["lowest_temperature", None])
def test_an_expert_decides_nothing_neither_by_temperature_nor_by_majority(rule: Any) -> None:
    model = script({"agent_2": ["1"], "agent_3": ["2"]})
    graph = debating(
        model, agents=3, rounds=1, role=["expert", "debater", "debater"], rule=rule, temperature=[0.1, 0.9, 0.5]
    )
    decision = held(graph, solution="The answer is 22.")["decision"]
    assert decision["answer"] == ("2" if rule else "1")
    assert [vote["answer"] for vote in decision["votes"]] == ["22", "1", "2"]
    assert not decision["votes"][0]["counts"]


# Documents, temperatures, models, system prompts


def test_each_agent_has_its_own_temperature_model_and_system_prompt() -> None:
    models = {name: marked(3, 2) for name in NAMES}
    systems = ["You are bold.", "You are shy.", "You are dry."]
    held(debating(models, agents=3, rounds=2, temperature=[0.1, 0.2, 0.3], system=systems))
    for name, system, temperature in zip(NAMES, systems, [0.1, 0.2, 0.3], strict=True):
        assert [(asked.agent, asked.options["temperature"]) for asked in models[name].calls] == [
            (name, temperature)
        ] * 2
        assert all(asked.turns[0].text == system and asked.turns[0].role == "system" for asked in models[name].calls)


# The last round


@pytest.mark.parametrize(("agents", "rounds"), [(2, 3), (3, 2), (3, 1)])
def test_if_the_deciding_agent_alone_speaks_last_there_are_n_times_r_minus_one_plus_one_calls(
    agents: int, rounds: int
) -> None:
    model = marked(agents, rounds)
    temperatures = [0.9] * (agents - 1) + [0.1]
    state = held(debating(model, agents=agents, rounds=rounds, temperature=temperatures, last_round="deciding"))
    assert len(model.calls) == agents * (rounds - 1) + 1
    assert [asked.agent for asked in model.calls if asked.round == rounds - 1] == [f"agent_{agents}"]
    assert state["decision"]["rule"] == "lowest_temperature"


@pytest.mark.parametrize("rule", ["majority", "average"])
def test_a_rule_over_all_agents_needs_all_of_them_in_the_last_round(rule: Any) -> None:
    with pytest.raises(UsageError, match="last_round"):
        debating(last_round="deciding", rule=rule)
