"""Data sets with numbers, letters of options, yes or no, or three labels as answers."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from sottovoce.core.any_types import JSONValue
from sottovoce.core.errors import UsageError
from sottovoce.datasets.data_set import DataSet, Fields, Hub, Row
from sottovoce.prompts.kinds.option import bare

MARKS = re.compile(r"<<[^<>]*>>")
"""Calculator annotations: 16 - 3 - 4 = <<16-3-4=9>>9."""
PLAIN = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)")


def plain_number(said: str) -> str:
    """Return a number without thousands separators, currency and percent signs: "$2,125.50" becomes "2125.50".

    A minus sign is kept. The evaluators of Du and SDE read only the last group of digits and lose signs (16 of
    GSM8K's 1,319 answers).

    Raises:
        UsageError: the text is not a number.
    """
    bare = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", re.sub(r"[\s$€£%]", "", said)).replace("\u2212", "-").rstrip(".")
    if not PLAIN.fullmatch(bare):
        raise UsageError(f"the answer is {said!r}; expected a number")
    return bare.removeprefix("+")


def _gsm8k(row: Row) -> Fields:
    steps, mark, end = row.text("answer").rpartition("####")
    if not mark:
        raise UsageError(f"answer ends with {end[-40:]!r}; expected '#### ' and a number at the end")
    working, gold = MARKS.sub("", steps).strip(), end.strip()
    target = plain_number(gold)
    return {
        "question": row.text("question"),
        "target": target,
        **({} if gold == target else {"printed_target": gold}),
        "solution": f"{working}\nThe answer is {target}." if working else f"The answer is {target}.",
    }


GSM8K = DataSet(
    "gsm8k",
    "word problems of grade-school mathematics, with worked solutions",
    "number",
    {"question": "Ann has 3 apples and buys 4. How many has she?", "answer": "3 + 4 = <<3+4=7>>7 apples\n#### 7"},
    _gsm8k,
    {"test": 1_319, "train": 7_473},
    hub=Hub("main"),
)


def _ciar(row: Row) -> Fields:
    """Read a row; the answer's numeric forms are the right answers, or all forms as texts if no form is numeric."""
    answer = row.get("answer")
    forms = [str(each).strip() for each in (answer if isinstance(answer, list) else [answer])]
    numbers = []
    for form in forms:
        with suppress(UsageError):
            numbers.append(plain_number(form))
    first, *others = dict.fromkeys(numbers) or forms
    fields: Fields = {"question": row.text("question"), "target": first, "kind": "number" if numbers else "text"}
    fields |= {"aliases": others} if others else {}
    if why := row.values.get("explanation"):
        fields["solution"] = f"{why} The answer is {first}."
    if wrong := row.values.get("incorrect explanation"):
        fields["decoys"] = [str(wrong)]
    return fields


ARITHMETIC = DataSet(
    "arithmetic",
    "a+b*c+d-e*f with numbers from 0 to 29 (files of CIPHER's experiments)",
    "number",
    {"question": "What is the result of 1+2*3+4-5*6?", "answer": "-19"},
    lambda row: {"question": row.text("question"), "target": plain_number(str(row.get("answer")))},
    {"validation": 200, "test": 200},
)
CIAR = DataSet(
    "ciar",
    "questions whose intuitive answer is wrong (counter-intuitive arithmetic)",
    "number",
    {"question": "...", "answer": ["15", "fifteen"], "explanation": "...", "incorrect explanation": "..."},
    _ciar,
    {"repository": 50, "paper": 200},
)


LETTER = re.compile(r"\A\(?[A-Z]\)\s*")
LABEL = re.compile(r"\A[A-Z][.)]\s+")
LETTERS = string.ascii_uppercase


def chosen(question: str, choices: Sequence[str], right: int, how_many: int) -> Fields:
    """Return a question with its options; the 0-based option `right` and any with the same text are right.

    Raises:
        UsageError: the number of options is not `how_many`, or `right` is not one of them.
    """
    if len(choices) != how_many:
        raise UsageError(f"found {len(choices)} options; expected {how_many}")
    if not 0 <= right < how_many:
        raise UsageError(f"the right option is number {right + 1}; expected 1 to {how_many}")
    same = [at for at, choice in enumerate(choices) if choice == choices[right] and at != right]
    letter = LETTERS[right]  # an option with this letter as its text would be read as the target
    target = choices[right] if letter in bare(choices) else letter
    found: Fields = {"question": question, "choices": [*choices], "target": target}
    return {**found, "aliases": [LETTERS[at] for at in same]} if same else found


def _place(letter: str, how_many: int) -> int:
    place = LETTERS.find(letter.strip(" ().").upper())
    if len(letter.strip(" ().")) != 1 or not 0 <= place < how_many:
        raise UsageError(f"the right option is {letter!r}; expected a letter from A to {LETTERS[how_many - 1]}")
    return place


def _mmlu(row: Row) -> Fields:
    """Read a row: six cells as published; on the hub the options are a list and the answer is a 0-based number."""
    choices = row.texts("choices") if "choices" in row.values else [row.text(letter) for letter in "ABCD"]
    answer = row.get("answer")
    right = answer if isinstance(answer, int) else _place(row.text("answer"), 4)
    return chosen(row.text("question"), choices, right, 4)


def _aqua(row: Row) -> Fields:
    choices = [LETTER.sub("", option, count=1) for option in row.texts("options")]
    fields = chosen(row.text("question"), choices, _place(row.text("correct"), 5), 5)
    return {**fields, "solution": f"{row.text('rationale')}\nThe answer is {row.text('correct')}."}


def _ecqa(row: Row) -> Fields:
    """Read a row; the right option's text is the answer."""
    choices, answer = [row.text(f"q_op{i}") for i in range(1, 6)], row.text("q_ans")
    plain = [choice.casefold() for choice in choices]
    if answer.casefold() not in plain:
        raise UsageError(f"q_ans is {answer!r}; expected one of the options: {', '.join(map(repr, choices))}")
    fields = chosen(row.text("q_text"), choices, plain.index(answer.casefold()), 5)
    why = row.values.get("taskB")
    return {**fields, "solution": f"{why.strip()} The answer is {answer}."} if why else fields


def _medqa(row: Row) -> Fields:
    """Read a row; the options are a list of "A. text", repeated behind the question, or texts by letter."""
    options, answer = row.get("options"), row.text("answer")
    listed = [*options.values()] if isinstance(options, dict) else row.texts("options")
    choices = [LABEL.sub("", str(option), count=1) for option in listed]
    if answer not in choices:
        raise UsageError(f"answer is {answer!r}; expected one of the options: {', '.join(map(repr, choices))}")
    question = row.text("question").partition(f"\n{listed[0]}\n")[0].strip()
    return chosen(question, choices, choices.index(answer), 4)


MMLU = DataSet(
    "mmlu",
    "multiple choice with four options in 57 subjects; a part is a subject",
    "option",
    {name: "..." for name in ("question", "A", "B", "C", "D", "answer")},
    _mmlu,
    {
        "test": 14_042,
        "formal_logic": 126,
        "high_school_mathematics": 270,
        "professional_psychology": 612,
        "abstract_algebra": 100,
        "college_mathematics": 100,
    },
    columns=("question", "A", "B", "C", "D", "answer"),
    is_csv=True,
    any_part=True,
    metadata=("subject",),
    hub=Hub("all", part_is_config=True),
)
AQUA = DataSet(
    "aqua",
    "algebra with five options and a rationale",
    "option",
    {"question": "...", "options": ["A)21", "B)..."], "rationale": "...", "correct": "A"},
    _aqua,
    {"test": 254, "dev": 254, "train": 97_467},
    hub=Hub("raw"),
)
ECQA = DataSet(
    "ecqa",
    "common-sense questions with five options and an explanation",
    "option",
    {name: "..." for name in ("q_text", *(f"q_op{i}" for i in range(1, 6)), "q_ans", "taskB")},
    _ecqa,
    {"test": 2_194, "train": 7_598, "validation": 1_098},
    is_csv=True,
    metadata=("q_no", "q_concept"),
)
MEDQA = DataSet(
    "medqa",
    "questions of medical examinations with four options (MedQA), as LatentMAS has them, or by letter",
    "option",
    {"question": "Which?", "options": ["A. one", "B. two", "C. three", "D. four"], "answer": "two"},
    _medqa,
    {"latentmas": 300, "test": 1_273},
    metadata=("meta_info",),
)


FOLIO_LABELS = {"true": "Correct", "false": "Incorrect", "unknown": "Unknown", "uncertain": "Unknown"}
"""The published labels, and those that CMD uses for them."""
FEVER_LABELS = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO")
CLAIM = (
    "Tell whether what is known about the world supports a claim (SUPPORTS), speaks against it (REFUTES), "
    "or is not enough to tell (NOT ENOUGH INFO)."
)
CONCLUSION = (
    "Tell whether a conclusion follows from premises (Correct), is contradicted by them (Incorrect), "
    "or neither (Unknown)."
)
YES = {True: "yes", False: "no", "yes": "yes", "no": "no", "true": "yes", "false": "no"}


def _one_of(label: JSONValue, known: dict[str, str], column: str) -> str:
    """Return the label for its name in lower case."""
    name = str(label).strip().replace("_", " ").lower()
    if name not in known:
        raise UsageError(f"{column} is {label!r}; expected one of {', '.join(known)}")
    return known[name]


def _folio(row: Row) -> Fields:
    """Read a row; premises are part of the question, or documents (part "documents"). On the hub they are one text."""
    given = row.get("premises")
    premises = [each.strip() for each in given.split("\n")] if isinstance(given, str) else row.texts("premises")
    conclusion = f"Conclusion: {row.text('conclusion')}"
    fields: Fields = {"choices": list(dict.fromkeys(FOLIO_LABELS.values())), "description": CONCLUSION}
    fields["target"] = _one_of(row.get("label"), FOLIO_LABELS, "label")
    if row.part == "documents":
        return {**fields, "question": conclusion, "documents": premises}
    listed = "\n".join(f"{number}. {each}" for number, each in enumerate(premises, start=1))
    return {**fields, "question": f"Premises:\n{listed}\n{conclusion}"}


def _strategyqa(row: Row) -> Fields:
    """Read a row; facts are gold evidence, which agents get only if the part is "facts"."""
    answer = row.get("answer")
    known = answer if isinstance(answer, bool) else str(answer).strip().lower()
    if known not in YES:
        raise UsageError(f"answer is {answer!r}; expected true or false")
    fields: Fields = {"question": row.text("question"), "target": YES[known]}
    facts = row.values.get("facts") or []
    facts = [facts] if isinstance(facts, str) else facts
    if facts:
        fields["solution"] = f"{' '.join(map(str, facts))} The answer is {fields['target']}."
    if row.part == "facts":
        fields["documents"] = row.texts("facts") if isinstance(row.values.get("facts"), list) else facts
    return fields


def _fever(row: Row) -> Fields:
    target = _one_of(row.get("label"), {each.lower(): each for each in FEVER_LABELS}, "label")
    fields: Fields = {"question": row.text("claim"), "choices": [*FEVER_LABELS], "target": target}
    evidence = row.values.get("evidence")  # [[[annotation, evidence, page, sentence]]]
    lists = [one for one in evidence if isinstance(one, list)] if isinstance(evidence, list) else []
    named = [each[2] for one in lists for each in one if isinstance(each, list) and len(each) > 2]
    pages = [*named, row.values.get("evidence_wiki_url")]
    titles = (str(page).replace("-LRB-", "(").replace("-RRB-", ")").replace("-COLON-", ":") for page in pages if page)
    if gold := list(dict.fromkeys(title.replace("_", " ") for title in titles)):
        fields["gold_passages"] = gold
    return {**fields, "description": CLAIM}


FOLIO = DataSet(
    "folio",
    "conclusions from premises in everyday words: Correct, Incorrect or Unknown (FOLIO-wiki, curated)",
    "label",
    {"premises": ["All cats purr.", "..."], "conclusion": "...", "label": "true"},
    _folio,
    {"curated": 460},
    parts={"documents": "premises as documents, not in the question"},
    hub=Hub(split="validation"),
)
STRATEGYQA = DataSet(
    "strategyqa",
    "yes-or-no questions that leave the reasoning steps implicit",
    "yes_no",
    {"qid": "...", "question": "...", "answer": True, "facts": ["..."]},
    _strategyqa,
    {"dev": 229, "train": 2_290},
    parts={"facts": "with the gold facts as documents"},
    own_id=("qid",),
    metadata=("term",),
    hub=Hub(split="train"),
)
FEVER = DataSet(
    "fever",
    "claims checked against Wikipedia: SUPPORTS, REFUTES or NOT ENOUGH INFO",
    "label",
    {"id": 1, "claim": "A river flows uphill.", "label": "REFUTES"},
    _fever,
    {"paper_dev": 9_999, "paper_test": 9_999, "train": 145_449},
    own_id=("id",),
    metadata=("verifiable",),
    hub=Hub("v1.0", "paper_dev"),
)
FEVER2 = replace(
    FEVER,
    name="fever2",
    about="the same, with claims written to mislead (FEVER 2.0, fixers)",
    counts={"dev": 1_174},
    metadata=(),
    hub=Hub("v2.0", "validation"),
)
FEVEROUS = replace(
    FEVER,
    name="feverous",
    about="the same, over texts and tables",
    counts={"dev": 7_890, "train": 71_291},
    metadata=("challenge",),
    # the first row, which only lists the fields
    passes_over=lambda row: not row.values.get("claim") and not row.values.get("label"),
    hub=Hub(),
)
