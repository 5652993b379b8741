"""ReConcile with scripted replies: who hears what, confidences and weights, the vote, consensus (Chen et al. 2023)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from sottovoce.agents.scripted import RecordedCall, ScriptedChatModel
from sottovoce.channels.message import Message, MessageRef
from sottovoce.graphs.reconcile import read_vote
from sottovoce.prompts.structured import recalibrated
from tests.graphs.support import built, calls, heard, held
from tests.tables import each_row

Said = Sequence[str | tuple[object, object]]
"""Texts, or answers with confidences, one a round."""


def says(answer: object, confidence: object) -> str:
    return f'{{"reasoning": "So.", "answer": "{answer}", "confidence_level": "{confidence}"}}'


def reconciled(*agents: Said, **more: Any) -> tuple[Any, ScriptedChatModel]:
    """The final state of agents that say these things, and the model that spoke."""
    replies = {
        f"agent_{i + 1}": [each if isinstance(each, str) else says(*each) for each in said]
        for i, said in enumerate(agents)
    }
    model = ScriptedChatModel(replies)
    settings = {"agents": len(agents), "rounds": len(agents[0]) - 1, **more}
    return held(built("reconcile", model, **settings), target="22"), model


def heard_parts(asked: RecordedCall) -> list[MessageRef]:
    return [part for part in asked.turns[-1].parts if isinstance(part, MessageRef)]


# Confidence and vote (test oracle 1)


@each_row(
    ("p", "weight"),
    [(0.6, 0.1), (0.61, 0.3), (0.8, 0.5), (0.9, 0.8), (1.0, 1.0)],
)
def test_a_vote_weighs_its_recalibrated_confidence(p: float, weight: float) -> None:
    vote = read_vote(Message("agent_1", 0, "answer", says(22, p)), {"question": "?"})
    assert vote == {
        "agent": "agent_1",
        "answer": "22",
        "counts": True,
        "read": "boxed",
        "confidence": p,
        "weight": weight,
    }
    assert recalibrated(p) == weight


def test_a_tie_in_weight_goes_to_the_first_agent_s_answer() -> None:
    decision = reconciled([("22", 0.95)], [("21", 0.85)], [("21", 0.7)])[0]["decision"]
    assert (decision["answer"], decision["rule"], decision["tied"]) == ("22", "weighted", ["22", "21"])
    assert decision["beside"] == {"plain": "21"}
    assert [vote["weight"] for vote in decision["votes"]] == [0.8, 0.5, 0.3]
    assert "0.8 of 1.6 in weight for 22" in decision["why"] and "agent_1 spoke first" in decision["why"]


def test_one_sure_agent_outweighs_two_unsure_ones_unless_heads_are_counted() -> None:
    said: list[Said] = [[("20", 0.3)], [("20", 0.5)], [("22", 1)]]
    assert reconciled(*said)[0]["decision"]["answer"] == "22"
    plain = reconciled(*said, vote="plain")[0]["decision"]
    assert (plain["answer"], plain["rule"], plain["beside"]) == ("20", "plain", {"weighted": "22"})


@pytest.mark.parametrize(
    ("stated", "confidence", "asked"),
    [("85%", 0.85, 1), ("9 out of 10", 0.9, 1), ("300 %", 0.0, 2), ("9", 0.0, 2), ("very", 0.0, 2)],
)
def test_a_confidence_that_is_none_is_asked_for_again_and_then_counts_as_0(
    stated: str, confidence: float, asked: int
) -> None:
    state, model = reconciled([("22", stated), ("22", stated)], [("22", 0.9)], rounds=0)
    vote, prompts = state["decision"]["votes"][0], [each.turns[-1].text for each in calls(model, "agent_1")]
    assert (vote["answer"], vote["confidence"], len(prompts)) == ("22", confidence, asked)
    assert all('"confidence_level" is no number from 0 to 1' in prompt for prompt in prompts[1:])


# Who hears what


def test_every_agent_hears_all_answers_of_the_round_before_its_own_among_them_by_viewpoint() -> None:
    _, model = reconciled([(22, 0.9)] * 3, [(21, 0.7)] * 3, [(22, 0.8)] * 3)
    for asked in (each for each in model.calls if each.round == 2):
        assert [turn.role for turn in asked.turns] == ["user"]  # no history
        assert heard(asked) == [("agent_1", 1), ("agent_3", 1), ("agent_2", 1)]
        assert all(part.latest and part.own == (part.message.agent == asked.agent) for part in heard_parts(asked))
        lines = ("Two agents think the answer is 22:", "One agent thinks", "Question: What is 14 + 3 * 5 - 7?", "JSON")
        places = [asked.text.index(line) for line in lines]
        assert places == sorted(places)


def test_an_unreadable_answer_is_shown_apart_and_last() -> None:
    _, model = reconciled(["Hm.", "Hm!", "Hm?", says(22, 1)], [(21, 1), (21, 1)], rounds=1)
    text = calls(model, "agent_2")[1].text
    assert text.index("One agent thinks the answer is 21:") < text.index("One agent gives no answer that can be read:")
    assert "Hm!" in text and "Hm?" not in text


def test_an_answer_turn_is_read_with_the_confidence_of_the_reply_before_it_which_others_hear() -> None:
    said = ["It is clear.", says("who knows", 0.9), " 22", says(22, 1)]
    model = reconciled(said, [(21, 1), (21, 1)], rounds=1)[1]
    first = calls(model, "agent_2")[1]
    assert [(part.message.asked, part.message.attempt) for part in heard_parts(first)] == [("repair", 1), ("", 0)]
    assert "One agent thinks the answer is 22:" in first.text
    decision = reconciled(said[:3], [(21, 0.7)], rounds=0)[0]["decision"]
    asked = {
        "agent": "agent_1",
        "answer": "22",
        "counts": True,
        "read": "asked",
        "asked": "answer",
        "confidence": 0.9,
        "weight": 0.8,
    }
    assert (decision["answer"], decision["votes"][0]) == ("22", asked)


# When it ends


def test_consensus_ends_it() -> None:
    state, model = reconciled([(22, 0.9)] * 4, [(22.0, 0.2)] * 4, [("22", 1)] * 4)
    assert len(model.calls) == 3 and state["decision"]["answer"] == "22"
    assert state["decision"]["why"] == "1.9 of 1.9 in weight for 22 after round 1, all agree"


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_rounds_of_discussion_come_after_the_first_answers(rounds: int) -> None:
    _, model = reconciled([(22, 0.9)] * 4, [(21, 0.9)] * 4, rounds=rounds)
    assert len(model.calls) == 2 * (1 + rounds)
    assert [asked.act for asked in calls(model, "agent_1")] == ["answer", *["revise"] * rounds]
