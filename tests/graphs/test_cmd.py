"""CMD with scripted replies: groups, the visibility rule, vote, secretary, representatives (arXiv 2402.18272)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.agents.scripted import RecordedCall, ScriptedChatModel
from sottovoce.channels.message import MessageRef
from sottovoce.graphs.cmd import CMD
from tests.graphs.support import built, calls, heard, held
from tests.tables import each_row

LETTERS = "ABCDEFGHIJKL"
SILENT = None
"""No answer that can be read."""
Said = Sequence[object]
"""Answers, one a round."""


def says(agent: int, round: int, answer: object) -> str:
    """What an agent says in a round: words that nobody else says."""
    return f"Because {LETTERS[agent]}." + (f" The answer is {answer}." if answer != SILENT else " So it is.")


def discussed(
    *answers: Said, secretary: list[str] | None = None, question: dict[str, Any] | None = None, **changed: Any
) -> tuple[Any, ScriptedChatModel]:
    """The final state of agents that give these answers, and the model that spoke; no `secretary` is none."""
    replies = {f"agent_{i + 1}": [says(i, r, each) for r, each in enumerate(said)] for i, said in enumerate(answers)}
    model = ScriptedChatModel({**replies, "secretary": secretary or []})
    more = {"agents": len(answers), "rounds": 1, "secretary": secretary is not None, **changed}
    return held(built("cmd", model, **more), target="22", **(question or {})), model


def letters(asked: RecordedCall) -> set[str]:
    """Whose words stand in a prompt."""
    return {letter for letter in LETTERS if f"Because {letter}" in asked.text}


def told(asked: RecordedCall) -> str:
    """What an agent is told of the others."""
    return asked.turns[-2].text


# Groups


@each_row(
    ("agents", "sizes"),
    [(1, [1]), (2, [2]), (3, [3]), (4, [2, 2]), (5, [3, 2]), (6, [3, 3]), (7, [3, 2, 2]), (12, [3, 3, 3, 3])],
)
def test_groups_are_as_equal_as_possible_and_of_three_at_most(agents: int, sizes: list[int]) -> None:
    groups = CMD(agents=agents).groups()
    assert sizes == [len(group) for group in groups]
    assert [name for group in groups for name in group] == CMD(agents=agents).speakers()


# The visibility rule (test oracle 5)


def test_an_agent_finds_its_group_s_explanations_and_no_text_of_other_groups() -> None:
    _, model = discussed(*[[20 + i % 3] * 3 for i in range(6)], rounds=3, secretary=["The answer is 22."])
    for asked in (each for each in model.calls if each.agent != "secretary" and each.round > 0):
        mine, others = ("ABC", "DEF") if asked.agent <= "agent_3" else ("DEF", "ABC")
        assert letters(asked) == set(mine) and not letters(asked) & set(others)
    first = calls(model, "agent_1")[1]
    assert heard(first) == [("agent_1", 0), ("agent_2", 0), ("agent_3", 0)]
    assert all(f"One agent thinks the answer is {answer}." in told(first) for answer in (20, 21, 22))


def test_a_prompt_is_the_question_the_own_last_answer_what_was_heard_and_the_request() -> None:
    _, model = discussed(*[[22] * 3 for _ in range(4)], rounds=3)
    for r, asked in enumerate(calls(model, "agent_3")):
        assert [turn.role for turn in asked.turns] == ["system", "user", *["assistant", "system", "user"] * bool(r)]
        assert {each for _, each in heard(asked)} == ({r - 1} if r else set())  # earlier rounds are forgotten
        flags = [(part.latest, part.own) for turn in asked.turns for part in turn.parts if isinstance(part, MessageRef)]
        assert flags == ([(True, True), (True, False)] if r else [])


def test_unreadable_answers_are_dropped_from_the_tally_and_shown_apart_in_the_group() -> None:
    said: list[Said] = [[SILENT if i in (1, 4) else 22] * 4 for i in range(6)]
    _, model = discussed(*said, rounds=2)
    text = told(calls(model, "agent_1")[1])
    assert "One agent gives no answer that can be read:\n<message>\nBecause B" in text
    assert text.count("agent thinks") + text.count("agents think ") == 2  # C, and two of the other group
    assert "Two agents think the answer is 22." in text


# Vote and secretary


def test_the_secretary_is_asked_at_a_tie_and_need_not_take_a_tied_answer() -> None:
    state, model = discussed([20], [20], [21], [21], [19], secretary=["I work it out. The answer is 22."])
    decision = state["decision"]
    assert (decision["answer"], decision["rule"], decision["by"]) == ("22", "secretary", "secretary")
    assert decision["tied"] == ["20", "21"] and decision["score"] == 1.0
    (asked,) = calls(model, "secretary")
    assert [turn.role for turn in asked.turns] == ["system", "user"]
    assert heard(asked) == [("agent_1", 0), ("agent_3", 0), ("agent_5", 0)]  # one explanation for every answer
    assert "Five agents" in asked.text and "Two agents think the answer is 21, for example:" in asked.text
    assert asked.options["speaks"] == "nl" and asked.act == "decide"


def test_all_abstaining_ends_without_an_answer_and_without_a_secretary() -> None:
    state, model = discussed(*[[SILENT] * 2] * 4, secretary=[])
    assert (state["decision"]["answer"], state["decision"]["score"]) == (None, 0.0)
    assert len(model.calls) == 8  # all are asked for the answer alone
    assert state["decision"]["why"] == "no answer could be read: all abstained"


@settings(deadline=None, max_examples=10)
@given(st.lists(st.sampled_from([20, 21, 22, SILENT]), min_size=1, max_size=9))
def test_a_unique_maximum_is_the_answer_and_every_tie_goes_to_the_secretary(said: list[object]) -> None:
    """Test oracle 12's rule: of 100 published votes 86 have a unique maximum, and 14 went to the secretary."""
    state, model = discussed(*[[each, each] for each in said], secretary=["The answer is 7."])
    counts = Counter(each for each in said if each != SILENT).most_common()
    tied = [answer for answer, count in counts if count == counts[0][1]]
    expected = None if not tied else "7" if len(tied) > 1 else str(tied[0])
    assert state["decision"]["answer"] == expected
    assert bool(calls(model, "secretary")) == (len(tied) > 1)


# Representatives (Algorithm 1)

SIX: list[Said] = [[20, 20], [20], [20], [21, 21], [21], [21]]
"""Two groups, of one loaded model each."""


def asked_in(model: ScriptedChatModel, round: int) -> list[str]:
    return sorted(asked.agent for asked in model.calls if asked.round == round)


def test_groups_send_representatives_until_one_answer_leads() -> None:
    state, model = discussed([20, 21], *SIX[1:])
    assert asked_in(model, 1) == ["agent_1", "agent_4"]
    assert (state["decision"]["answer"], state["level"], state["groups"]) == ("21", 1, [["agent_1", "agent_4"]])
    assert state["decision"]["why"] == "2 of 2 say 21 (level 2)"


def test_representatives_hear_of_those_who_stayed_behind_how_many_hold_which_view_and_nothing_more() -> None:
    """O_i = {(v_j, e_j or nothing) : j != i}: the rule says who hears, and whoever spoke in the round before counts."""
    _, model = discussed(*SIX)
    for name, far in (("agent_1", "agent_4"), ("agent_4", "agent_1")):
        asked = calls(model, name)[1]
        assert "Other groups:\nTwo agents think the answer is 20.\nTwo agents think the answer is 21." in told(asked)
        assert heard(asked) == [(name, 0), (far, 0)]


def test_on_the_highest_level_the_first_of_the_tied_answers_wins() -> None:
    state, _ = discussed(*SIX)
    decision = state["decision"]
    assert (decision["answer"], decision["tied"], state["level"]) == ("20", ["20", "21"], 1)
    assert "agent_1 spoke first" in decision["why"] and "by" not in decision


def test_twelve_agents_have_three_levels() -> None:
    state, model = discussed(*[[20 + i % 2 if i < 6 else 21 - i % 2] * 3 for i in range(12)], representative="first")
    assert asked_in(model, 1) == ["agent_1", "agent_10", "agent_4", "agent_7"]
    assert asked_in(model, 2) == ["agent_1", "agent_7"]
    assert state["level"] == 2


@pytest.mark.parametrize(("policy", "sent"), [("tied", ["agent_2", "agent_4"]), ("first", ["agent_1", "agent_4"])])
def test_a_group_sends_the_first_of_its_agents_that_holds_a_tied_answer_or_the_first(
    policy: str, sent: list[str]
) -> None:
    state, _ = discussed([19, 19], [20, 20], [20, 20], [21, 21], [21, 21], representative=policy)
    assert state["groups"] == [sent]


def test_representatives_by_lot_are_the_same_for_the_same_seed() -> None:
    said: list[Said] = [*[[20, 20]] * 3, *[[21, 21]] * 3]
    sent = [discussed(*said, representative="random", seed=seed)[0]["groups"] for seed in (0, 0, 1, 2, 3, 4)]
    assert sent[0] == sent[1] and len({str(each) for each in sent}) > 1
