"""MAD with scripted replies: turn order, what each hears, the adaptive break, the judge (Liang et al. 2023)."""

from __future__ import annotations

from typing import Any

import pytest

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import MessageRef
from sottovoce.nodes.prompt_builder import PromptBuilder
from sottovoce.prompts.render import Prompts
from tests.graphs.support import board, built, calls, heard, held
from tests.tables import each_row

OPEN = '{"Whether there is a preference": "No", "Supported Side": "", "Reason": "Unclear.", "debate_answer": ""}'
JUDGED = '{"Reason": "It is.", "debate_answer": "22"}'


def settled(answer: object = 22, preference: str = "Yes") -> str:
    side = '"Supported Side": "Negative", "Reason": ["It", "is."]'
    return f'{{"Whether there is a preference": "{preference}", {side}, "debate_answer": "{answer}"}}'


def debaters(n: int = 2, rounds: int = 3) -> dict[str, list[str]]:
    names = ["affirmative", "negative", "debater_3", "debater_4"][:n]
    return {name: [f"{name} in {r}. The answer is {20 + i}." for r in range(rounds)] for i, name in enumerate(names)}


def mad(
    moderator: list[str], judge: list[str] | None = None, n: int = 2, **settings: Any
) -> tuple[Any, ScriptedChatModel]:
    """The final state, and the model that spoke."""
    model = ScriptedChatModel({**debaters(n), "moderator": moderator, "judge": judge or []})
    return held(built("mad", model, agents=n, **settings), target="22"), model


# Calls (test oracle 7)


def test_three_rounds_without_an_answer_and_the_judge_take_eleven_calls() -> None:
    state, model = mad([OPEN] * 3, ["22 and 20.", JUDGED])
    spoken = [(asked.agent, asked.act) for asked in model.calls]
    a_round = ["affirmative", "negative", "moderator"]
    assert [agent for agent, _ in spoken] == [*a_round * 3, "judge", "judge"]
    assert [act for _, act in spoken[-2:]] == ["list_candidates", "judge"]
    decision = state["decision"]
    assert (decision["answer"], decision["rule"], decision["by"], decision["score"]) == ("22", "judge", "judge", 1.0)


# What is heard


def test_each_debater_hears_what_was_said_since_it_last_spoke() -> None:
    _, model = mad([OPEN] * 3, ["22.", JUDGED])
    assert heard(calls(model, "affirmative")[0]) == []
    assert heard(calls(model, "negative")[0]) == [("affirmative", 0)]
    assert heard(calls(model, "affirmative")[2], -1) == [("negative", 1)]
    assert heard(calls(model, "negative")[2], -1) == [("affirmative", 2)]  # of the same round
    last = calls(model, "negative")[2]
    assert heard(last) == [("affirmative", 0), ("negative", 0), ("affirmative", 1), ("negative", 1), ("affirmative", 2)]
    flags = [(part.latest, part.own) for turn in last.turns for part in turn.parts if isinstance(part, MessageRef)]
    assert flags == [(False, False), (False, True), (False, False), (True, True), (True, False)]


def test_the_form_stands_after_the_opponent_s_words_and_nothing_after_the_form() -> None:
    """In round 1 the negative side was asked for the form before it read the affirmative's words, and not after."""
    _, model = mad([OPEN] * 3, ["22.", JUDGED])
    form = PromptBuilder(Prompts(), {"question": "?", "kind": "number"}, None).form()
    for asked in [*calls(model, "affirmative")[1:], *calls(model, "negative")]:
        text = asked.turns[-1].text
        assert text.endswith(f"\n\nQuestion: What is 14 + 3 * 5 - 7?\n{form}") and text.count(form) == 1
        assert text.index("side says:\n<message>\n") < text.index("\n</message>\n") < text.index("Question:")


def test_of_three_debaters_each_hears_all_before_it() -> None:
    _, model = mad([OPEN, OPEN], ["22.", JUDGED], n=3, rounds=2)
    assert [heard(asked, -1) for asked in calls(model, "debater_3")] == [
        [("affirmative", 0), ("negative", 0)],
        [("affirmative", 1), ("negative", 1)],
    ]
    assert heard(calls(model, "affirmative")[1], -1) == [("negative", 0), ("debater_3", 0)]
    assert heard(calls(model, "moderator")[1], -1) == [("affirmative", 1), ("negative", 1), ("debater_3", 1)]
    assert "Affirmative or Negative or Debater 3" in calls(model, "moderator")[0].text


def test_debaters_never_see_the_moderator_and_the_moderator_keeps_its_history() -> None:
    _, model = mad([OPEN] * 3, ["22.", JUDGED])
    debating = [asked for asked in model.calls if asked.agent in ("affirmative", "negative")]
    assert not [asked for asked in debating if "moderator" in [agent for agent, _ in heard(asked)]]
    last = calls(model, "moderator")[2]
    assert [turn.role for turn in last.turns] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert heard(last, 2) == [("moderator", 0)] and heard(last, -1) == [("affirmative", 2), ("negative", 2)]


@pytest.mark.parametrize(("sees", "rounds"), [("all", [0, 0, 1, 1, 2, 2]), ("last", [2, 2]), ("first", [0, 0])])
def test_the_judge_reads_the_rounds_it_is_to_see(sees: str, rounds: list[int]) -> None:
    _, model = mad([OPEN] * 3, ["22 or 20.", JUDGED], judge_sees=sees)
    listing, judging = calls(model, "judge")
    assert [r for _, r in heard(listing)] == rounds
    assert heard(judging) == [*heard(listing), ("judge", 2)]
    latest = [part.latest for turn in listing.turns for part in turn.parts if isinstance(part, MessageRef)]
    assert latest == [r == rounds[-1] for r in rounds]  # of the last round that is read
    assert listing.turns[0] == calls(model, "moderator")[0].turns[0]  # the same office
    assert "What is 14 + 3 * 5 - 7?" in judging.turns[-1].text


# The level of disagreement


def test_each_level_of_disagreement_says_something_else_and_two_is_the_default() -> None:
    told = [calls(mad([settled()], disagreement=level)[1], "negative")[0].turns[0].text for level in range(4)]
    assert len(set(told)) == 4
    assert calls(mad([settled()])[1], "affirmative")[0].turns[0].text == told[2]


# What cannot be read


def test_a_moderator_is_asked_once_more_and_then_leaves_it_open() -> None:
    state, model = mad(["Hm.", "Still, hm."] * 3, ["22.", JUDGED])
    repair = calls(model, "moderator")[1]
    assert [turn.role for turn in repair.turns] == ["system", "user", "assistant", "user"]
    assert '"debate_answer" is missing' in repair.turns[-1].text and '"Supported Side"' in repair.turns[-1].text
    assert len(calls(model, "moderator")) == 6 and state["decision"]["by"] == "judge"
    attempts = [message for message in board(state) if message.agent == "moderator" and message.round == 0]
    assert [(message.attempt, message.text) for message in attempts] == [(0, "Hm."), (1, "Still, hm.")]
    assert "asked again" in attempts[0].notes[0] and "cannot be read" in attempts[1].notes[0]


def test_a_judge_that_cannot_be_read_is_asked_for_the_answer_alone_and_a_moderator_is_not() -> None:
    state, model = mad(["Hm."] * 6, ["None.", "I pass.", "I pass.", " 22"])
    assert (state["decision"]["answer"], state["decision"]["by"], state["decision"]["score"]) == ("22", "judge", 1.0)
    assert [(asked.act, asked.options["prefill"]) for asked in model.calls if "prefill" in asked.options] == [
        ("judge", "Answer:")
    ]


@each_row(
    ("verdict", "calls_made"),
    [
        (settled(22, "No"), 11),  # an answer without a preference
        (settled("unknown"), 11),
        (settled("a number"), 14),  # the form's own words
        (settled(22, "No, both are right"), 11),
        (settled("the negative side"), 14),  # no number: asked again, each round
        (settled("22"), 3),
        ("```json\n" + settled(22) + "\n```\nThank you.", 3),
    ],
)
def test_it_ends_with_an_answer_that_is_preferred_and_can_be_read(verdict: str, calls_made: int) -> None:
    _, model = mad([verdict] * 6, ["22.", JUDGED])
    assert len(model.calls) == calls_made
