"""The one rule of reading: one statement counts, few words stay as they are, and prose is not read."""

from __future__ import annotations

import csv
import json
import string
from typing import Any

import pytest

from sottovoce.channels.message import Message
from sottovoce.prompts.kinds import Reading, boxed, normalise, read_field, reading
from sottovoce.prompts.kinds.marks import LONGEST, MAX_STATEMENTS, How
from sottovoce.prompts.kinds.option import bare
from tests.shared import shared

ASKED: dict[str, dict[str, Any]] = {
    "number": {"question": "How many are left?", "kind": "number"},
    "option": {"question": "Which?", "kind": "option", "choices": ["red", "blue", "green", "None of these"]},
    "yes_no": {"question": "Do whales breathe air?", "kind": "yes_no"},
    "label": {"question": "Which label fits?", "kind": "label", "choices": ["open", "closed", "Unknown"]},
    "text": {"question": "In which city is the head office?", "kind": "text"},
}
TWO = {"number": ("1", "2"), "option": ("A", "B"), "yes_no": ("yes", "no"), "label": ("open", "closed")}
TWO["text"] = ("Delhi", "Mumbai")
ABSTENTION = Reading(None, None)
SECOND = [
    "Answer: {1}\n\nThe answer is {1}.",
    "Answer: {0}\n\nWait, that misses the last step.\n\nAnswer: {1}",
    "Answer: {0}\n\nActually, after checking: $\\boxed{{{1}}}$",
    "Answer: {0}\n\nCorrected answer: {1}",
    "> Answer: {0}\n\n\\boxed{{{1}}}",
    "If the answer is {0}, the premise fails. Agent 2's answer is {0}. The answer is {1}.",
    "Answer: {1}\n\nAgent 2 says that the answer is {0}, which I doubt. Agent 3's answer is {0}.",
    "```\nAnswer: {1} [3]\n```",
    "### Answer\n{1}",
    "**Answer:** {1}\n\nLet me know if there is more!",
    "<answer>{1}</answer>",
    "Antwort: {0}\n\nRéponse finale : {1}",
    "Answer: let me think.\n\nThe answer is {1}.",
]
NONE = [
    "Answer: {0}\n\nAnswer: {1}",
    "The answer is: {0}. The answer is: {1}",
    "\\boxed{{{0}}}\n\nAnswer: {1}",
    "Agent 2's reply was:\nAnswer: {0}",
    "\\boxed{{{0}}} is what agent 2 wrote.",
    "Answer: cannot be determined",
    "Answer: {0}. Oops, this answer is wrong.",
    "Answer: {0}\n\nActually, it should be {1}.",
    "Agent 2 says that the answer is {0}.",
    "I do not think that the answer is {0}.",
    "If the answer is {0}, all is well.",
    '<tool_call>{{"answer": "{0}"}}</tool_call>',
    "First it was {0}, then {1}, as all agents agree.",
    "Answer:",
]


def read(text: str, asked: dict[str, Any], *, cut: bool = False) -> Reading:
    return reading(Message("agent_1", 0, "answer", text, cut=cut), asked)


def test_the_one_statement_of_a_reply_s_own_counts_and_says_how_it_was_read() -> None:
    wrong = []
    for kind, asked in ASKED.items():
        first, second = TWO[kind]
        cases: list[tuple[str, str | None]] = [(text.format(first, second), second) for text in SECOND]
        cases += [(text.format(first, second), None) for text in NONE]
        wrong += [(kind, text, found) for text, meant in cases if (found := read(text, asked).answer) != meant]
        hows: dict[str, How] = {
            f"So be it.\nAnswer: {first}": "marked",
            f"So be it: \\boxed{{{first}}}": "boxed",
            f'{{"reasons": "So be it.", "answer": "{first}"}}': "boxed",
            f"{first}.": "bare",
        }
        wrong += [(kind, text, how) for text, how in hows.items() if read(text, asked) != Reading(first, how)]
    assert not wrong


def test_a_reply_that_was_cut_states_nothing() -> None:
    for kind, asked in ASKED.items():
        first, second = TWO[kind]
        for text in (first, f"Answer: {first}", f"Answer: {first}\n\nThis is so since {second}"):
            assert read(text, asked, cut=True) == ABSTENTION, text


WORDINGS = [
    "Answer: {0}", "Answer: ({0}) {1}", "Answer: {0}. {1}", "Answer: {0}, {1}", "The answer is ({0}) {1}.",
    "**Answer: ({0}) {1}**", r"\boxed{{{0}}}", r"$\boxed{{\text{{({0}) {1}}}}}$", "({0}) {1}", "Answer: {1} ({0})",
]  # fmt: skip


def test_a_letter_of_a_choice_is_that_choice_whatever_its_text_says() -> None:
    aqua = shared("datasets/aqua_test_first60.jsonl").read_text(encoding="utf-8").splitlines()
    mmlu = shared("datasets/mmlu_high_school_mathematics_first60.csv")
    rows = [*csv.reader(mmlu.read_text(encoding="utf-8").splitlines())]
    asked = [(row["question"], row["options"]) for row in map(json.loads, aqua)] + [(row[0], row[1:5]) for row in rows]
    unknown = ["None of these", "Cannot be determined", "Unknown", "Not enough information"]
    asked += [("Which?", ["6", "7", "8", "9", choice]) for choice in unknown]

    wrong = [
        (text, found)
        for question, choices in asked
        for letter, choice in zip(string.ascii_uppercase, bare(choices), strict=False)
        if choice.count("{") == choice.count("}")
        for text in [wording.format(letter, choice) for wording in WORDINGS]
        if (found := read(text, {"question": question, "kind": "option", "choices": choices}).answer) != letter
    ]
    assert len(asked) == 124 and not wrong


def test_published_answers_are_read_back() -> None:
    rows = json.loads(shared("datasets/hotpotqa_dev_simplified_first200.json").read_text(encoding="utf-8"))
    answers = [read(f"Answer: {row['answer']}", {"question": row["question"], "kind": "text"}).answer for row in rows]
    differing = [
        row["answer"]
        for row, answer in zip(rows, answers, strict=True)
        if normalise(answer or "") != normalise(row["answer"])
    ]
    assert [len(answer.split()) for answer in differing] == [14]  # a sentence, for which a shorter answer is asked

    for line in shared("datasets/gsm8k_test_first200.jsonl").read_text(encoding="utf-8").splitlines():
        solution = json.loads(line)["answer"]
        gold = solution.rpartition("#### ")[2].replace(",", "")
        for said in (solution, f"It was 3, so the answer is {gold}.", gold):
            assert read(said, ASKED["number"]).answer == gold, said[-80:]


FIELDS: list[tuple[str, str, str | None]] = [
    ("22 apples", "number", "22"),
    ("5 * 4 = 20", "number", "20"),
    ("20 or 22", "number", None),
    ("Neither 20 nor 21", "number", None),
    ("14 + 8", "number", None),
    ("b", "option", "B"),
    ("Blue", "option", "B"),
    ("z", "option", None),
    ("option 2", "option", "B"),
    ("True", "yes_no", "yes"),
    ("no, it is not", "yes_no", "no"),
    ("yes or no", "yes_no", None),
    ("Open", "label", "open"),
    ("[closed]", "label", "closed"),
    ("Not enough info", "label", None),
    ("list[int]", "text", "list[int]"),
    ("a\nb", "text", "a b"),
    ("[Paris]", "text", "Paris"),
    ("", "text", None),
    ("A number.", "number", None),  # the form's own placeholder
    ("a few words", "text", None),
]


def test_a_field_of_a_form_is_the_answer_as_a_whole() -> None:
    fields = [(given, kind, read_field(given, ASKED[kind])) for given, kind, _ in FIELDS]
    assert fields == FIELDS
    assert read_field("Close with N.", {"kind": "text", "answer_description": "close with N"}) is None


def test_of_a_long_text_the_end_is_read() -> None:
    steps = "One step more. " * (LONGEST // 10)
    text = rf"Answer: \boxed{{21}} {steps} Answer: \boxed{{22}}"
    message = Message("agent_1", 0, "answer", text)
    assert (reading(message, ASKED["number"]).answer, boxed(message, ASKED["number"])) == ("22", "22")


@pytest.mark.parametrize("statement", ["\\boxed{{{}}}\n\n", "The answer is {}.\n\n"])
def test_of_many_statements_the_last_ones_are_examined(statement: str) -> None:
    before = statement.format(21) * (3 * MAX_STATEMENTS)
    text = f"{before}Wait, that misses the last step.\n\n{statement.format(22)}"
    assert read(text, ASKED["number"]).answer == "22"
