"""MADRA replies of careful models: which evidence they choose, whether a judge agrees, what they answer."""

from __future__ import annotations

from typing import Any

from sottovoce.channels.message import Message
from sottovoce.graphs.madra import selected, verdict
from sottovoce.prompts import kinds
from tests.tables import each_row

CHOICES: list[tuple[str, list[int] | None]] = [
    # The line that the prompt asks for
    ("Evidence: 3, 0", [3, 0]),
    ("Evidence: [3, 0]", [3, 0]),
    ("Evidence: [3][0]", [3, 0]),
    ("Evidence: passages 3 and 0", [3, 0]),
    ("Evidence: 3; 0; 4; 1", [3, 0, 4]),
    ("- **Evidence**: 3 & 0", [3, 0]),
    ("evidence: #3 and #0.", [3, 0]),
    ("[2] names his town, and [0] only the fair.\n\nEvidence: [2]", [2]),
    ("### Evidence\n- [3] On w3\n- [0] On holt", None),
    ("Evidence:\n1. [3] On w3, which tells his birthplace\n2. [0] On holt", None),
    ("Evidence: [3] (born 1912, two years before [1]) and [0]", [3, 0]),
    ("Evidence: [3], not [1]", None),
    ("Evidence: [3] On w3 (2 mills), [0] On holt", None),
    ("Let me weigh the evidence: [1] is a mill, [2] a river. Only [4] tells where he was born.\nEvidence: [4]", [4]),
    ("I first took [1] for it.\nEvidence: [1]\nOn a second look it is another man.\nEvidence: [2]", [2]),
    ("Evidence: [No Found]", []),
    ("Evidence: No Found", []),
    ("Evidence: none of them", []),
    ("[0] is about him, but I need none.\nEvidence: [No Found]", []),
    ("Evidence: none; [1] comes closest, but tells of another town. [No Found]", None),
    ("Evidence: [3] [0]? No: [No Found]", None),
    ("Evidence numbers: 3, 0", [3, 0]),
    ("Evidence: [7] [1] [1]", [1]),
    ("Evidence:\n- [1]\n- [4]", [1, 4]),
    ("Evidence: - [1] - [4]", None),
    ("Evidence:\n* [1]\n\n* [4]", [1, 4]),
    ("Evidence: [1]\n\nPassage 4 is of no use.", [1]),
    # Without that line
    ("None helps: [0] is about a fair, [1] about a mill. [No Found]", None),
    ("[No Found] would be wrong, since [3] names his town. I choose [3].", None),
    ("[0] tells of the fair, which does not matter. I would use [3] and [4].", None),
    ("Passages 3 and 0 name the town and the year.", None),
    ("3, 0", [3, 0]),
    ("[4] and [1], then [0], [3] and [4]", None),
    ("[no found]", []),
    ("Nothing [99999999999999] [x] []", None),
    ("He was born in 1903, three years after the fire, and had 2 brothers.", None),
]
"""Replies to the question which of five passages help, at most three, and what their writers meant."""

VERDICTS: list[tuple[str, bool | None]] = [
    ("[Yes]", True),
    ("[NO]", False),
    ("Yes.", True),
    ("Both answers are the same. Yes.", None),
    ("No, they differ: one says Aldmoor, the other Kell.", None),
    ("The first says Aldmoor and the second says Aldmoor in Ostmark, which is the same town. [Yes]", True),
    ("**[No]**\n\nAgent 1 says Aldmoor; agent 2 says Kell.", False),
    ("Agent 1 answers yes and agent 2 answers no. [No]", False),
    ('Agent 1 says "yes" and agent 2 says "yes", so the verdict is [Yes].', None),
    ("All of them answer no. They agree: [Yes]", True),
    ("One says yes, the other says no. No.", None),
    ("Answer: Yes", True),
    ("Verdict: No", False),
    ("**Verdict:** Yes - both name the Orla.", None),
    ("\\boxed{Yes}", None),
    ("At first sight [Yes], but the second agent means another town, so [No].", None),
    ("No, wait: both mean the same river. [Yes]", True),
    ("Yes, although their reasons differ, the answer is the same.", None),
    ("Yes, they differ.", None),
    ("Yes and no.", None),
    ("[Yes] or [No]", None),
    ("No two of them say the same thing.\n\n[No]", False),
    ("Their answers do not match in every detail (one adds the country), but name the same place.\n\nYes", True),
    ("Yes, the answer is no for both.", None),
    ("<answer>No</answer>", None),
    ("[Yes, all of them]", None),
    ("Hm.", None),
    ("", None),
]
"""Replies of a judge, and whether it found the answers the same."""

CLEO: Any = {"question": "Which band had more members?", "kind": "text"}
LONG: Any = {"question": "How long is Tern Bridge, in metres?", "kind": "number"}
FAIR: Any = {"question": "Is there a fair in Aldmoor?", "kind": "yes_no"}
CLAIM: Any = {
    "question": "Aldmoor has a fair.",
    "kind": "label",
    "choices": ["SUPPORTS", "REFUTES", "NOT ENOUGH INFO"],
}
ANSWERS: list[tuple[Any, str, str]] = [
    (CLEO, "Letters to Cleo [0].", "Letters to Cleo"),
    (CLEO, "[Letters to Cleo]", "Letters to Cleo"),
    (
        CLEO,
        "Letters to Cleo had five members [0], Screaming Trees four [3].\nAnswer: Letters to Cleo",
        "Letters to Cleo",
    ),
    (CLEO, "Answer: Letters to Cleo [0][3].", "Letters to Cleo"),
    (CLEO, "**Answer:** Letters to Cleo (see [0] and [3])", "Letters to Cleo"),
    (CLEO, "Answer: Letters to Cleo [0, 3]", "Letters to Cleo"),
    (CLEO, "By [0] it had five members.\nAnswer: [Letters to Cleo]", "Letters to Cleo"),
    (LONG, "The answer is 340 metres [0].", "340"),
    (LONG, "By [0] it is 340 metres.\nAnswer: 340 [0]", "340"),
    (LONG, "[1] has 300 and [3] adds 40, so the answer is [340].", "340"),
    (LONG, "Answer: [340]", "340"),
    (FAIR, "The fair is held there [0].\nAnswer: yes [0]", "yes"),
    (FAIR, "[Yes]", "yes"),
    (FAIR, "Of [Keel Bridge] it is told. Answer: no", "no"),
    (CLAIM, "[0] says that the fair is held there.\nAnswer: SUPPORTS [0]", "SUPPORTS"),
]


def said(text: str, *, cut: bool = False) -> Message:
    return Message("judge", 0, "agree", text, cut=cut)


@each_row(("text", "chosen"), CHOICES)
def test_a_choice_is_read_where_it_is_stated(text: str, chosen: list[int] | None) -> None:
    assert selected(said(text), 5, 3) == chosen


@each_row(("text", "same"), VERDICTS)
def test_a_judge_is_read_by_its_own_verdict(text: str, same: bool | None) -> None:
    assert verdict(said(text)) == same


def test_a_reply_that_was_cut_chooses_nothing_and_gives_no_verdict() -> None:
    assert selected(said("Evidence: [1", cut=True), 5, 3) is selected(said("Evidence: [1]", cut=True), 5, 3) is None
    assert verdict(said("Some would say [Yes] here, but the second", cut=True)) is None
    assert verdict(said("Some would say [Yes] here.")) is None


@each_row(("question", "text", "answer"), ANSWERS)
def test_an_answer_that_cites_is_read_without_its_citations(question: Any, text: str, answer: str) -> None:
    assert kinds.reading(said(text), question).answer == answer
