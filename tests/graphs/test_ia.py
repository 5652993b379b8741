"""Information asymmetry: who knows and hears what, when it ends, and what counts."""

from __future__ import annotations

import re
from typing import Any, Literal

import pytest

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import Message, MessageRef
from sottovoce.channels.store import PayloadStore
from sottovoce.datasets.samples import about_the_world
from sottovoce.graphs.ia import IA, LINE, create_ia
from sottovoce.prompts import kinds
from tests.graphs.support import Recording, board, calls, heard, lonely_loaded
from tests.tables import each_row

KEYS = ["board", "decision", "round", "documents"]
ASKED: Any = {"question": "Where was Bern Holt born?", "id": "q1", "kind": "text", "target": "Aldmoor"}
RANKED = [f"Passage {rank}." for rank in range(1, 7)]
ASKS_FIRST = 2
"""A seed under which random weights do not answer in the first round."""
A, Q, BOXED = r"#A: \S[^\n]*", r"#Q: \S[^\n]*", r"\\boxed\{(yes|no|unknown)\}"
SURE = r"#A: He was. \boxed{Aldmoor}"


def talking(replies: dict[str, list[str]], question: Any = ASKED, **settings: Any) -> tuple[Any, ScriptedChatModel]:
    model = ScriptedChatModel(replies)
    graph = create_ia(IA(**settings), models=model).compile()
    return graph.invoke({**question, "documents": RANKED}, {"recursion_limit": 100}, output_keys=KEYS), model


def asking(n: int = 5) -> list[str]:
    return [f"#Q: What of {i}?" for i in range(n)]


# Who knows what


@pytest.mark.parametrize("agents", [2, 3])
def test_passages_are_dealt_by_rank_and_nobody_reads_another_one_s(agents: int) -> None:
    _, model = talking({f"agent_{i}": asking(2) for i in range(1, agents + 1)}, agents=agents, rounds=2)
    for asked in model.calls:
        place = int(asked.agent.removeprefix("agent_")) - 1
        assert asked.turns[0].role == "system"
        for rank, passage in enumerate(RANKED):
            own = rank % agents == place
            assert (passage in asked.turns[0].text) == own and passage not in asked.turns[-1].text
    assert "\nDocument 1: Passage 2.\nDocument 2: Passage 4." in calls(model, "agent_2")[0].turns[0].text or agents == 3


def test_passages_are_looked_up_for_a_question_without_any_and_the_board_says_which() -> None:
    model = ScriptedChatModel([SURE] * 2)
    graph = create_ia(IA(library="encyclopedia"), models=model).compile()
    question = {**ASKED, "question": "Who wrote The Salt Ledger, and who was its publisher?"}
    state: Any = graph.invoke(question, output_keys=KEYS)
    assert {agent: len(own) for agent, own in state["documents"].items()} == {"agent_1": 3, "agent_2": 3}
    told = board(state)[0]
    assert (told.agent, told.act, told.source) == ("library", "deal", "rule") and "The Salt Ledger" in told.text
    first = state["documents"]["agent_1"][0]
    assert first["title"] == "The Salt Ledger" and first["text"] in calls(model, "agent_1")[0].turns[0].text


# Who hears what, and when it ends


def test_each_hears_all_others_of_the_round_before_behind_its_own_history() -> None:
    _, model = talking({"agent_1": asking(3), "agent_2": asking(3), "agent_3": asking(3)}, agents=3, rounds=3)
    last = calls(model, "agent_2")[-1]
    assert [turn.role for turn in last.turns] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert heard(last) == [
        ("agent_2", 0), ("agent_1", 0), ("agent_3", 0), ("agent_2", 1), ("agent_1", 1), ("agent_3", 1),
    ]  # fmt: skip
    latest = [part.latest for turn in last.turns for part in turn.parts if isinstance(part, MessageRef)]
    assert latest == [False] * 3 + [True] * 3
    assert last.turns[-1].text.count(f"Question: {ASKED['question']}") == 1


def test_a_round_in_which_anybody_answers_is_held_by_all_and_is_the_last() -> None:
    state, model = talking({"agent_1": ["#Q: Who?", SURE, "no more"], "agent_2": ["#Q: Why?", "#A: So.", "no more"]})
    assert (state["round"], len(model.calls)) == (1, 4)
    assert (state["decision"]["answer"], state["decision"]["score"]) == ("Aldmoor", 1.0)
    assert state["decision"]["why"] == "1 of 1 say Aldmoor after round 2; 2 questions asked, 2 answered"
    assert [(vote["answer"], vote["counts"]) for vote in state["decision"]["votes"]] == [
        ("Aldmoor", True),
        (None, False),
    ]


def test_after_five_rounds_without_an_answer_there_is_none() -> None:
    state, model = talking({"agent_1": asking(), "agent_2": asking()})
    assert len(model.calls) == 10 and all(asked.options["temperature"] == 0.0 for asked in model.calls)
    assert (state["decision"]["answer"], state["decision"]["score"]) == (None, 0.0)
    assert state["decision"]["why"].startswith("no answer in its form after round 5; 10 questions asked")


@pytest.mark.parametrize("protocol", ["nl", "cipher"])
def test_where_a_run_asks_for_it_messages_have_their_form_and_the_last_one_answers(
    protocol: str, store: PayloadStore
) -> None:
    model = Recording(protocol=protocol, preloaded=lonely_loaded(), store=store, temperature=1.0, max_tokens=40)
    yes_no: Any = {**ASKED, "kind": "yes_no", "target": "yes", "documents": RANKED}
    graph = create_ia(IA(rounds=2, guide="on", temperature=[1.0], seed=ASKS_FIRST), models=model).compile()
    state: Any = graph.invoke(yes_no, output_keys=KEYS)
    said = [message.text for message in board(state)]
    assert len(said) == 4 and all(re.fullmatch(rf"{A}\n({Q}|{BOXED})", text) for text in said[:2]), said
    assert all(re.fullmatch(rf"{A}\n{BOXED}", text) for text in said[2:]), said
    assert all(vote["counts"] for vote in state["decision"]["votes"])


class Strong(Recording):
    """Is asked as a large model is."""

    @property
    def wording(self) -> Literal["short", "sentence"]:
        return "short"


def test_strong_models_write_freely_and_only_the_line_of_their_box_is_kept_to_its_form(store: PayloadStore) -> None:
    """They were kept to one line of 120 characters and a box in every round."""
    model = Strong(preloaded=lonely_loaded(), store=store, temperature=1.0, max_tokens=40)
    yes_no: Any = {**ASKED, "kind": "yes_no", "target": "yes", "documents": RANKED}
    settings: Any = {"rounds": 2, "guide": "on", "temperature": [1.0], "seed": ASKS_FIRST}
    state: Any = create_ia(IA(**settings), models=model).compile().invoke(yes_no, output_keys=KEYS)
    forms = [each.form for each in model.requests]
    assert [(form.after, form.forced) for form in forms] == [(r"\boxed{", False)] * 2 + [(r"\boxed{", True)] * 2
    said = [message.text for message in board(state)]
    assert not any("boxed" in text for text in said[:2])
    assert all(re.search(r"(?:\A|\n)\\boxed\{ (?:yes|no|unknown)\}\Z", text) for text in said[2:]), said[2:]


# What counts


@pytest.mark.parametrize(
    ("replies", "score"),
    [
        ((SURE, r"\boxed{Bern}"), 0.5),
        ((SURE, "It was Aldmoor."), 1.0),
        ((r"\boxed{Bern}", "It was Aldmoor."), 0.0),
        ((r"\boxed{}", SURE), 1.0),
        ((r"\boxed{#A: Aldmoor}", SURE), 1.0),
        ((r"\boxed{#A}", r"\boxed{#A}"), 0.0),
    ],
)
def test_the_score_is_the_share_of_answers_in_their_form_that_are_right(replies: Any, score: float) -> None:
    state, _ = talking({"agent_1": [replies[0]], "agent_2": [replies[1]]})
    assert state["decision"]["score"] == score


@pytest.mark.parametrize(("rule", "score"), [("formatted", 0.0), ("raw", 0.5)])
def test_without_any_the_score_is_zero_or_that_of_what_can_be_read(rule: str, score: float) -> None:
    state, _ = talking({"agent_1": ["The answer is Aldmoor."], "agent_2": ["Bern"]}, rounds=1, score=rule)
    assert state["decision"]["score"] == score


# Protocols, and the questions that ship


def test_the_questions_that_ship_can_be_asked() -> None:
    for asked in about_the_world(None, 8):
        state, _ = talking({"": [rf"\boxed{{{asked['target']}}}"] * 2}, asked)
        assert state["decision"]["score"] == 1.0


BOX = "\\boxed"
MESSAGES: list[tuple[str, str | None, int, int]] = [
    ("#A: My documents name the town, Aldmoor.\n#Q: On which river does Aldmoor lie?", None, 1, 1),
    (f"#A: Aldmoor lies on the Orla.\n{BOX}{{the Orla}}", "the Orla", 0, 1),
    (f"**#A:** Bern Holt was born in Aldmoor.\n\n**Final answer:** {BOX}{{Aldmoor}}", "Aldmoor", 0, 1),
    ("- #A: He was a miller.\n- #Q: Who owned the mill?\n- #Q: When did it burn?", None, 2, 1),
    (f"I am fairly sure, though not certain, that it is {BOX}{{\\text{{Aldmoor}}}}", "Aldmoor", 0, 0),
    (f"${BOX}{{340}}$", "340", 0, 0),
    (f"At first I had {BOX}{{Kell}}. With what you say it is {BOX}{{Aldmoor}}.", "Aldmoor", 0, 0),
    (f"{BOX}{{Kell}}\n\nWait, the mill is elsewhere: {BOX}{{Aldmoor}}.", "Aldmoor", 0, 0),
    (f"If he was born there, {BOX}{{Kell}}, but I do not know.\n#Q: Where was he born?", None, 1, 0),
    (f"Once I know the town I will write it as {BOX}{{...}}.\n#Q: Which town is it?", None, 1, 0),
    (f"{BOX}{{}}\n#Q: Which town is it?", None, 1, 0),
    ("My documents say nothing of him. (They tell of the context{ual} history of Kell.)", None, 0, 0),
    (f"{BOX} {{Aldmoor}}", "Aldmoor", 0, 0),
    (f"\\text{{Aldmoor}}. Not {BOX}{{Bern}}", None, 0, 0),
    (f"{BOX}{{Aldmoor\nand so on", None, 0, 0),
    ("#Q: Where?\n- **#A:** there.\nJust talk #Q: no.\n# Q : When?", None, 2, 1),
]
"""A message, what its box holds (None: no answer yet), and how many questions and answers it has."""


@each_row(("text", "answer", "questions", "answers"), MESSAGES)
def test_a_message_is_read_as_it_is_meant(text: str, answer: str | None, questions: int, answers: int) -> None:
    found = [kind for kind, _ in LINE.findall(text)]
    box = kinds.boxed(Message("agent_1", 0, "talk", text), {})
    assert (box, found.count("Q"), found.count("A")) == (answer, questions, answers)
