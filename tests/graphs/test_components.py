"""Prompt components that a task supplies, in every scheme; wordings and starting views by agent (CMD, section 4)."""

from __future__ import annotations

from typing import Any

import pytest

from sottovoce.agents.scripted import RecordedCall, ScriptedChatModel
from sottovoce.graphs import NAMES, scheme
from sottovoce.nodes.option_groups import COMPONENTS
from sottovoce.nodes.prompt_builder import PromptBuilder
from sottovoce.prompts.render import Prompts
from tests.graphs.support import QUESTION, built, held
from tests.tables import each_row, pairs

TASK: dict[str, Any] = {
    "description": "Sums of small numbers.",
    "answer_description": "Close with N alone.",
    "demonstrations": ["What is 1 + 1? The answer is 2.", "What is 2 + 2? The answer is 4."],
}
SHOWN = {
    "question_description": "Sums of small numbers.",
    "answer_description": "Close with N alone.",
    "demonstrations": "".join(
        f"An example:\n<example>\n{each}\n</example>\n" + "\n" * (n == 0)
        for n, each in enumerate(("What is 1 + 1? The answer is 2.", "What is 2 + 2? The answer is 4."))
    ),
    "chain_of_thought": "steps",
}
ALL_OFF = dict.fromkeys(COMPONENTS, False)
ASKED = f"Question: {QUESTION['question']}"
SPEECH = '{"reasoning": "So.", "answer": 22, "confidence_level": 1, "debate_answer": 22}'
ACT = '{"thoughts": "So.", "action": 2, "value": "hat-brown", "character": [1]}'
"""What a request and a reply of WhoDunit can both be."""
WORLDS = ("whodunit", "govsim", "codegen")
"""Their rules say what a reply must hold."""
SHORT: dict[str, dict[str, Any]] = {"govsim": {"months": 1, "utterances": 2}, "brief": {"know": "question"}}
"""Settings of games that else would be long, and of senders that have no documents here."""
PREPARING = ("brief", "pipeline")
"""Their agents are not asked for an answer, except the last one."""
ASKING = [name for name in NAMES if name not in (*WORLDS, *PREPARING)]
OTHERS = ("moderator", "judge", "secretary", "summarizer")
WITHOUT_FORM = ("list_candidates", "select", "agree")


def shown_by(name: str) -> dict[str, str]:
    """What stands in a scheme's prompts for each component; information asymmetry asks for its own first steps."""
    return SHOWN | ({"chain_of_thought": "First tell what you know"} if name == "ia" else {})


def first_prompts(name: str, question: dict[str, Any] | None = None, **settings: Any) -> dict[str, str]:
    """What each agent of a scheme is asked for an answer first, system prompts apart."""
    model = ScriptedChatModel([ACT if name in WORLDS else SPEECH] * 60)
    held(built(name, model, **SHORT.get(name, {}), **settings), **(question or {}))
    firsts: dict[str, RecordedCall] = {}
    for asked in (asked for asked in model.calls if asked.act != "select"):
        firsts.setdefault(asked.agent, asked)
    return {
        agent: "\n".join(turn.text for turn in asked.turns if turn.role == "user")
        for agent, asked in firsts.items()
        if agent not in OTHERS
    }


@each_row("name", ASKING)
def test_every_component_of_the_task_is_in_every_first_prompt(name: str) -> None:
    for prompt in first_prompts(name, TASK).values():
        assert all(text in prompt for text in shown_by(name).values())
        assert prompt.index(SHOWN["question_description"]) < prompt.index("An example") < prompt.index("14 + 3 * 5 - 7")


@pytest.mark.parametrize(("name", "component"), pairs(ASKING, COMPONENTS, 2))
def test_each_is_switched_off_by_itself(name: str, component: str) -> None:
    for prompt in first_prompts(name, TASK, **{component: False}).values():
        assert {each for each, text in shown_by(name).items() if text in prompt} == set(COMPONENTS) - {component}


@each_row("name", [name for name in ASKING if name not in ("mad", "reconcile", "react")])
def test_with_all_off_only_the_question_goes_in(name: str) -> None:
    assert set(first_prompts(name, TASK, **ALL_OFF).values()) == {ASKED}


def test_without_a_task_s_own_words_the_kind_s_form_is_asked_for_with_or_without_steps() -> None:
    forms = {on: first_prompts("single", chain_of_thought=on)["agent_1"].split("\n")[-1] for on in (True, False)}
    assert forms == {
        on: PromptBuilder(Prompts(), {"question": "?", "kind": "number"}, None, components=frozenset(shown)).form()
        for on, shown in ((True, COMPONENTS), (False, ["answer_description"]))
    }
    assert forms[True] != forms[False]
    steps = first_prompts("single", answer_description=False)["agent_1"].split("\n")[-1]
    assert steps == "Show your steps."


@each_row("name", [name for name in NAMES if scheme(name).settings.discusses])
def test_the_question_may_be_worded_for_one_agent_and_another_given_a_view_to_start_from(name: str) -> None:
    first, second = scheme(name).settings().speakers()[:2]
    views = {second: "The answer is 21."}
    prompts = first_prompts(name, {"wordings": {first: "Work out 14 + 3 * 5 - 7."}, "starting_views": views})
    assert "Work out 14 + 3 * 5 - 7." in prompts[first] and QUESTION["question"] not in prompts[first]
    assert QUESTION["question"] in prompts[second] and "Work out" not in prompts[second]
    assert "The view you start from: The answer is 21." in prompts[second]
    assert "view you start from" not in prompts[first]


@pytest.mark.parametrize(("name", "others"), [("mad", ["moderator", "judge"]), ("cmd", ["secretary"])])
def test_who_does_not_discuss_is_told_of_the_task_and_knows_shared_documents_and_its_own(
    name: str, others: list[str]
) -> None:
    known = {agent: ["Everybody knows."] for agent in scheme(name).settings().names()}
    known[others[0]] = [*known[others[0]], "Only I know."]
    model = ScriptedChatModel(
        {"": [f"Hm. The answer is {n}." for n in range(60)], "judge": ["[No]", SPEECH, "", *["[No]"] * 9]}
    )
    held(built(name, model), **TASK, documents=known)
    for asked in (asked for asked in model.calls if asked.agent in others and asked.act != "list_candidates"):
        assert TASK["description"] in asked.text and "<facts>\n- Everybody knows.\n" in asked.text
        assert ("Only I know." in asked.text) == (asked.agent == others[0])
    assert {asked.agent for asked in model.calls} >= set(others)
    assert not [asked for asked in model.calls if "Only I know." in asked.text and asked.agent not in others]


# Where they stand


@each_row(
    ("name", "settings"),
    [*((name, {}) for name in ASKING if name != "react"), ("debate", {"shape": "fresh"}), ("debate", {"agents": 1})],
)
def test_the_question_and_the_form_come_last_in_whatever_asks_for_an_answer(
    name: str, settings: dict[str, Any]
) -> None:
    replies = [f'{{"reasoning": "So.", "answer": {n}, "confidence_level": 1, "debate_answer": ""}}' for n in range(90)]
    model = ScriptedChatModel({"": replies, "judge": ["[No]", SPEECH, "", *["[No]"] * 9]})
    held(built(name, model, **settings), **TASK, documents=["Mia has 3."])
    answering = [asked for asked in model.calls if asked.act not in WITHOUT_FORM]
    assert (len({asked.round for asked in answering}) > 1) == scheme(name).settings.discusses
    for text in (asked.turns[-1].text for asked in answering):
        before, _, form = text.rpartition(f"{ASKED}\n")
        assert (before.endswith("\n\n") or not before) and "Question: " not in before
        assert "\n" not in form and ("Close with N alone." in form or form.startswith("Reply with one JSON object"))
