"""Data sets with a context that one agent reads and a question that another answers, as KVComm reads them.

The layouts, as the public code has them (Zephyroam/KVComm, dataloader/, seen in the copy wjl-bupt/KVComm at cf6dfe8):

- countries.jsonl: `id`, `person`, `prompt_A` (context), `prompt_B` (question), `country`
- tipsheets.jsonl: `prompt_A`, `prompt_B`, `options`, `label`
- QASPER of SCROLLS (tau/scrolls): `input` is the question, an empty line and the paper; `output` is the answer
- MuSiQue-Ans (dgslibisey/MuSiQue): `paragraphs` of `title`, `paragraph_text`, `is_supporting`; `answer`,
  `answer_aliases`. KVComm gives the supporting ones.
- MultiFieldQA-en and 2WikiMQA of LongBench: `input`, `context`, `answers`, `length`, `all_classes`, `_id`. KVComm's
  copy (Xnhyacinth/LongBench) has `question` for `input`.
- TMATH: a folder of folders (hint_algebra, ...) of JSON files, one problem each: `problem`, `solution`,
  `socratic_questions` (the hints); or these rows in one file

QASPER and MuSiQue are read in LongBench's layout, too. KVComm asks 500 rows of HotpotQA, QASPER and MuSiQue.
"""

from __future__ import annotations

import re
from dataclasses import replace

from sottovoce.core.errors import UsageError
from sottovoce.datasets.data_set import DataSet, Fields, Hub, Row
from sottovoce.datasets.spans import METRIC, span

PASSAGE = re.compile(r"^Passage \d+:\s*", re.MULTILINE)
"""The line above each passage of LongBench's contexts; the line below it is the passage's title."""
LONGBENCH = {"_id": "...", "input": "Who?", "context": "Passage 1:\nTitle\nText.", "answers": ["..."], "length": 4}
IDS = ("_id", "id", "pid")


def _tipsheets(row: Row) -> Fields:
    label, options = row.text("label"), row.texts("options")
    if label not in options:
        raise UsageError(f"label is {label!r}; expected one of the options: {', '.join(map(repr, options))}")
    return span(row.text("prompt_B"), [label]) | {"documents": [row.text("prompt_A")]}


def _longbench(row: Row) -> Fields:
    """Read a row of LongBench; each passage of its context is a document."""
    before, *passages = PASSAGE.split(row.text("context"))
    documents = [_passage(text) for text in passages if text.strip()] if not before else [row.text("context")]
    return span(row.text("input", "question"), row.texts("answers")) | {"documents": documents}


def _passage(text: str) -> dict[str, str] | str:
    title, _, body = text.strip().partition("\n")
    return {"title": title.strip(), "text": body.strip()} if body.strip() else title


def _qasper(row: Row) -> Fields:
    if "output" not in row.values:
        return _longbench(row)
    question, _, paper = row.text("input").partition("\n\n")
    if not paper.strip():
        raise UsageError("input has no empty line; expected the question, an empty line and the paper")
    return span(question.strip(), [row.text("output")]) | {"documents": [paper.strip()]}


def _musique(row: Row) -> Fields:
    """Read a row with all its paragraphs, or only the supporting ones (part "support")."""
    if "paragraphs" not in row.values and row.part != "support":
        return _longbench(row)
    published = row.get("paragraphs")
    try:
        passages = [({"title": one["title"], "text": one["paragraph_text"]}, one["is_supporting"]) for one in published]
    except (TypeError, KeyError):
        raise UsageError("paragraphs do not all have title, paragraph_text and is_supporting, as published") from None
    supporting = [passage for passage, supports in passages if supports]
    if not supporting:
        raise UsageError("no paragraph is_supporting; expected at least one")
    aliases = row.texts("answer_aliases") if row.values.get("answer_aliases") else []
    fields = span(row.text("question"), [row.text("answer"), *aliases])
    fields["gold_passages"] = list(dict.fromkeys(passage["title"] for passage in supporting))
    return fields | {"documents": supporting if row.part == "support" else [passage for passage, _ in passages]}


def _tmath(row: Row) -> Fields:
    """Read a problem. Senders read its hints. ROUGE-L compares replies with its solution, which is not a target."""
    hints, solution = row.get("socratic_questions"), row.text("solution")
    hints = hints.strip() if isinstance(hints, str) else "\n".join(row.texts("socratic_questions"))
    if not hints:
        raise UsageError("socratic_questions is empty; expected a text, or a list of texts")
    return {"question": row.text("problem"), "documents": [hints], "solution": solution, "printed_target": solution}


COUNTRIES = DataSet(
    "countries",
    "the country of a landmark where a person is (KVComm)",
    "text",
    {"id": 0, "person": "...", "prompt_A": "Ann is at ...", "prompt_B": "Which country?", "country": "..."},
    lambda row: span(row.text("prompt_B"), [row.text("country")]) | {"documents": [row.text("prompt_A")]},
    {"test": 200},
    METRIC,
    private=True,
    own_id=("id",),
    metadata=("person",),
)
TIPSHEETS = DataSet(
    "tipsheets",
    "the company to invest in, by notes on three (KVComm)",
    "text",
    {"prompt_A": "A Ltd ...", "prompt_B": "Which?", "options": ["A Ltd", "B Ltd"], "label": "A Ltd"},
    _tipsheets,
    {"test": 500},
    METRIC,
    private=True,
    own_id=("id",),
    metadata=("options",),
)
QASPER = DataSet(
    "qasper",
    "questions about a scientific paper, of SCROLLS or LongBench",
    "text",
    {"id": "...", "pid": "...", "input": "Question?\n\nPaper.", "output": "..."},
    _qasper,
    {"dev": 1_726, "train": 2_567, "longbench": 200},
    METRIC,
    private=True,
    own_id=IDS,
    metadata=("length",),
    hub=Hub("qasper"),
)
MUSIQUE = DataSet(
    "musique",
    "questions of two to four hops with twenty paragraphs (MuSiQue-Ans), or of LongBench",
    "text",
    {
        "id": "2hop__1_2",
        "paragraphs": [{"title": "...", "paragraph_text": "...", "is_supporting": True}],
        "question": "...",
        "answer": "...",
        "answer_aliases": [],
    },
    _musique,
    {"dev": 2_417, "train": 19_938, "longbench": 200},
    METRIC,
    private=True,
    parts={"support": "with the supporting paragraphs alone, as in KVComm"},
    own_id=IDS,
    metadata=("length",),
    passes_over=lambda row: row.values.get("answerable") is False,
    hub=Hub(split="validation"),
)
MULTIFIELDQA_EN = DataSet(
    "multifieldqa_en",
    "questions about a long text of one of several fields (LongBench)",
    "text",
    LONGBENCH,
    _longbench,
    {"test": 150},
    METRIC,
    private=True,
    own_id=IDS,
    metadata=("length",),
    hub=Hub("multifieldqa_en"),
)
TWO_WIKI_MQA = replace(
    MULTIFIELDQA_EN,
    name="2wikimqa",
    about="questions of 2WikiMultihopQA with long passages (LongBench)",
    counts={"test": 200},
    hub=Hub("2wikimqa"),
)
TMATH = DataSet(
    "tmath",
    "problems of competitions, with hints that only senders read (KVComm); a folder of JSON files, or one file",
    "text",
    {"problem": "What is 2 + 3?", "solution": "...", "socratic_questions": "What is one more than 2?"},
    _tmath,
    {"kvcomm": 300},
    "ROUGE-L recall",
    private=True,
    own_id=("file",),
    metadata=("level", "type"),
    files="*/*.json",
)
