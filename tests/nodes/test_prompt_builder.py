from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sottovoce.channels.message import Message, MessageRef, Part, Turn
from sottovoce.graphs import mad, reconcile
from sottovoce.nodes.prompt_builder import PromptBuilder
from sottovoce.nodes.question import Document, Question
from sottovoce.prompts import SHIPPED
from sottovoce.prompts.render import Prompts
from tests.tables import each_row

QUESTION: Question = {"question": "What is 14 + 3?"}
ASKED = "Question: What is 14 + 3?"
(FORM,) = Prompts().render("answers/number", steps=True)


def view(
    question: Question = QUESTION, agent: str | None = "agent_1", system: str = "", pack: Path | None = None
) -> PromptBuilder:
    return PromptBuilder(Prompts(pack), question, agent, system, answers="sentence")


def message(agent: str, round: int = 0) -> Message:
    return Message(agent, round, "answer", f"{agent} in round {round}.")


def heard(turns: Sequence[Turn]) -> list[tuple[str, str, int, bool, bool]]:
    """Every heard message: the role of its turn, who spoke in which round, whether it is of the last, whether own."""
    return [
        (turn.role, part.message.agent, part.message.round, part.latest, part.own)
        for turn in turns
        for part in turn.parts
        if isinstance(part, MessageRef)
    ]


def wording(turn: Turn) -> list[str]:
    return [part if isinstance(part, str) else f"<{part.message.agent}>" for part in turn.parts]


def test_at_first_an_agent_sees_the_question_alone() -> None:
    assert view().independent() == (Turn("user", (f"{ASKED}\n{FORM}",)),)


def test_a_system_prompt_stands_before_every_shape() -> None:
    talking = view(system="Be brief.")
    shapes = [
        talking.independent(),
        talking.history([message("agent_1")], [[message("agent_2")]]),
        talking.history_of_summaries([message("agent_1")], [message("secretary")]),
        talking.fresh(message("agent_1"), [message("agent_2")]),
        talking.summarise([message("agent_2")]),
    ]

    assert all(turns[0] == Turn("system", ("Be brief.",)) and turns[1].role == "user" for turns in shapes)


DOCUMENTS: list[tuple[object, str | None, list[str]]] = [
    ([], "agent_1", []),
    (["Mia has 3.", "Bob has 5."], "agent_1", ["Mia has 3.", "Bob has 5."]),
    ({"agent_1": ["Mia has 3."], "agent_2": ["Bob has 5."]}, "agent_1", ["Mia has 3."]),
    ({"agent_2": ["Bob has 5."]}, "agent_1", []),
    ({"agent_1": ["Mia has 3."], "agent_2": ["Bob has 5.", "Mia has 3."]}, None, ["Mia has 3.", "Bob has 5."]),
]


@each_row(("documents", "agent", "known"), DOCUMENTS)
def test_an_agent_knows_its_own_documents_and_a_single_one_knows_all(
    documents: list[Document], agent: str | None, known: list[str]
) -> None:
    (turn,) = view({**QUESTION, "documents": documents}, agent).independent()

    lines = turn.text.splitlines()
    facts = ["<facts>", *(f"- {line}" for line in known), "</facts>"] if known else []
    at = lines.index("<facts>") if known else 0
    assert lines[at : at + len(facts)] == facts and ASKED in lines
    assert [line for line in lines if line.startswith("- ")] == [f"- {line}" for line in known]


PART: Question = {**QUESTION, "documents": {"agent_1": ["Mia has 3."], "agent_2": ["Bob has 5."]}}


def test_an_agent_that_knows_a_part_is_asked_to_share_its_facts() -> None:
    (first,) = view(PART).first_turns()

    assert "word for word" in first.text and ASKED not in first.text
    assert str(FORM) not in first.text and first.text.splitlines()[-3:] == ["<facts>", "- Mia has 3.", "</facts>"]


def test_after_sharing_facts_an_agent_reads_the_others_messages_and_its_own_facts_as_one_list() -> None:
    (later,) = view(PART).history([message("agent_1")], [[message("agent_2")]])

    assert heard([later]) == [("user", "agent_2", 0, True, False)]
    listed = "Facts:\n- agent_2 in round 0.\n- Mia has 3."
    assert later.text.endswith(f"{listed}\n\n{ASKED}\n{FORM}")


def test_worked_examples_stand_before_the_question_and_give_a_text_answer_its_form() -> None:
    shown: Question = {**PART, "kind": "text", "demonstrations": ["Facts: ... Answer: a van"]}
    (first,) = view(shown).first_turns()
    (later,) = view(shown).history([message("agent_1")], [[message("agent_2")]])
    assert "a van" not in first.text  # seen: a small model went on with them instead of sharing its facts
    assert later.text.startswith("An example:\n<example>\nFacts: ... Answer: a van\n</example>\n\nFacts:\n")
    assert later.text.endswith("Answer in a few words.")
    chats = [
        view(shown).history([message("agent_1")], [[message("agent_2")]], "own_first"),
        view(shown).history_of_summaries([message("agent_1")], [message("secretary")]),
        view(shown).fresh(message("agent_1"), [message("agent_2")]),
    ]
    for turns in chats:
        assert [turn.text.count("a van") for turn in turns] == [0] * (len(turns) - 1) + [1]
        assert turns[-1].text.endswith("Answer in a few words.")
    off = replace(view(shown), components=frozenset({"chain_of_thought", "answer_description"}))
    assert off.independent()[0].text.endswith("Answer in one sentence.") and "a van" not in off.independent()[0].text


def test_an_agent_is_asked_to_check_its_last_message_and_to_keep_what_is_sound() -> None:
    for turns in (
        view().history([message("agent_1")], [[message("agent_2")]]),
        view().history([message("agent_1")], [[message("agent_2")]], "own_first"),
        view().fresh(message("agent_1"), [message("agent_2")]),
        view().history_of_summaries([message("agent_1")], [message("secretary")]),
    ):
        assert "check" in turns[-1].text.lower() and "sound" in turns[-1].text


def test_the_bundled_model_keeps_the_prompts_that_it_was_trained_on() -> None:
    trained = replace(view(PART), prompts=Prompts(SHIPPED / "bundled"))
    (first,) = trained.first_turns()
    (later,) = trained.history([message("agent_1")], [[message("agent_2")]])

    assert "Repeat these facts word for word:" in first.text
    assert [part.message.agent for part in later.parts if isinstance(part, MessageRef)] == ["agent_2"]
    assert later.text.startswith("What you know:\n<facts>\n- Mia has 3.\n</facts>\n\nAnother agent says:\n<message>")
    assert "Use what you all know to answer." in later.text


@each_row("kind", ["number", "option", "yes_no", "label", "text"])
def test_the_form_of_the_answer_and_the_choices_are_asked_for_at_the_end(kind: str) -> None:
    choices = ["17", "18"]
    question: Question = {**QUESTION, "kind": kind, "choices": choices}
    (form,) = Prompts().render(f"answers/{kind}", steps=True, examples=False, choices=choices)
    lettered = ["(A) 17", "(B) 18"] if kind == "option" else []

    for turns in (view(question).independent(), view(question).fresh(message("agent_1"), [message("agent_2")])):
        assert turns[-1].text.splitlines()[-2 - len(lettered) :] == [ASKED, *lettered, form]


def test_the_labels_there_are_stand_in_the_form() -> None:
    form = view({**QUESTION, "kind": "label", "choices": ["SUPPORTS", "REFUTES"]}).form()

    assert form.endswith("SUPPORTS, REFUTES.")
    assert ":" not in view({**QUESTION, "kind": "label"}).form()


def test_a_debate_of_one_checks_itself() -> None:
    turns = view().history([message("agent_1")], [[]])

    assert turns[-1].text == f"Check your answer step by step.\n\n{ASKED}\n{FORM}"


@pytest.mark.parametrize(
    ("order", "blocks"),
    [
        (None, ["<agent_2>", "<agent_3>"]),
        ("others_first", ["<agent_2>", "<agent_3>", "<agent_1>"]),
        ("own_first", ["<agent_1>", "<agent_2>", "<agent_3>"]),
    ],
)
def test_an_order_restates_the_own_last_answer_beside_the_others(order: str | None, blocks: list[str]) -> None:
    own, others = [message("agent_1", 0), message("agent_1", 1)], [[message("agent_2"), message("agent_3")]] * 2

    turns = view().history(own, others, order)  # type: ignore[arg-type]

    assert [part for part in wording(turns[-1]) if part.startswith("<")] == blocks
    assert [part for part in wording(turns[2]) if part.startswith("<")] == ["<agent_2>", "<agent_3>"]


@pytest.mark.parametrize(
    ("order", "blocks"),
    [
        (None, ["agent_2", "agent_3", "agent_1"]),
        ("others_first", ["agent_2", "agent_3", "agent_1"]),
        ("own_first", ["agent_1", "agent_2", "agent_3"]),
    ],
)
def test_the_fresh_shape_is_one_prompt_with_all_answers_of_the_last_round(order: str | None, blocks: list[str]) -> None:
    question: Question = {**QUESTION, "documents": ["Mia has 3."]}

    (turn,) = view(question).fresh(message("agent_1", 1), [message("agent_2", 1), message("agent_3", 1)], order)  # type: ignore[arg-type]

    assert heard([turn]) == [("user", agent, 1, True, agent == "agent_1") for agent in blocks]
    before, after = (turn.text.index(part) for part in ("- Mia has 3.\n</facts>", ASKED))
    assert all(before < turn.text.index(f"{agent} in round 1.") < after for agent in blocks)


def test_who_sums_up_hears_all_answers_and_gives_none() -> None:
    (turn,) = view().summarise([message("agent_1"), message("agent_2")])

    assert heard([turn]) == [("user", agent, 0, True, False) for agent in ("agent_1", "agent_2")]
    assert turn.text.endswith("Sum up what the agents say.") and str(FORM) not in turn.text
    assert turn.text.startswith(f"{ASKED}\n")


def test_no_prompt_pastes_the_words_of_an_agent() -> None:
    own, others = [message("agent_1")], [[message("agent_2")]]
    shapes = [view().history(own, others, "own_first"), view().fresh(own[0], others[0]), view().summarise(own)]

    for part in (part for turns in shapes for turn in turns for part in turn.parts):
        assert not isinstance(part, str) or "in round" not in part


def test_a_pack_may_ask_for_no_form_at_all(tmp_path: Path) -> None:
    (tmp_path / "answers").mkdir()
    (tmp_path / "answers" / "number.md").write_text("")

    parts: tuple[Part, ...] = view(pack=tmp_path).independent()[0].parts

    assert parts == (ASKED,)


LABELS = ["True", "False", "Not enough info"]
FORMS = [
    lambda builder, again: reconcile.form(builder, again=again),
    lambda builder, again: mad.verdict_form(builder, ["affirmative", "negative"], again=again),
    lambda builder, again: mad.judgement_form(builder, again=again),
]


@pytest.mark.parametrize("pack", ["", "reconcile", "mad"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("again", [False, True])
def test_a_form_lists_the_labels_and_a_repeated_one_the_options_too(form: Any, again: bool, pack: str) -> None:
    # Seen: ReConcile and MAD's moderator never listed them, and "answer": "True" could not be read.
    prompts = Prompts(SHIPPED / "paper" / pack) if pack else Prompts()
    label, option = (
        PromptBuilder(prompts, {"question": "Is it so?", "kind": kind, "choices": LABELS}, None)
        for kind in ("label", "option")
    )

    assert ": True, False, Not enough info" in form(label, again)
    assert (": (A) True, (B) False, (C) Not enough info" in form(option, again)) is again


def test_labels_that_a_task_s_own_words_name_are_not_listed_again() -> None:
    own = "Reply with true, false or not enough info."
    question = Question(question="?", kind="label", choices=LABELS, answer_description=own)
    assert PromptBuilder(Prompts(), question, None).form().endswith(own)
    other: Question = {**question, "answer_description": "Give the verdict."}
    assert PromptBuilder(Prompts(), other, None).form().endswith("Give the verdict: True, False, Not enough info.")
