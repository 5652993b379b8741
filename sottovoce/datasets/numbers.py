"""Data sets with numeric answers."""

from __future__ import annotations

import re

from sottovoce.core.errors import UsageError
from sottovoce.datasets.schema import DataSet, Fields, Hub, Row

MARKS = re.compile(r"<<[^<>]*>>")
"""Calculator annotations: 16 - 3 - 4 = <<16-3-4=9>>9."""
PLAIN = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)")


def plain_number(said: str) -> str:
    """Return a number without thousands separators, currency and percent signs: "$2,125.50" is "2125.50".

    A minus sign is kept. The evaluators of Du and SDE read only the last group of digits and lose signs (16 of
    GSM8K's 1,319 answers).

    Raises:
        UsageError: the text is not a number.
    """
    bare = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", re.sub(r"[\s$€£%]", "", said)).replace("\u2212", "-").rstrip(".")
    if not PLAIN.fullmatch(bare):
        raise UsageError(f"the answer is {said!r}; expected a number")
    return bare.removeprefix("+")


def _gold(row: Row) -> str:
    """Return the text after the last ####."""
    _, mark, gold = row.text("answer").rpartition("####")
    if not mark:
        raise UsageError(f"answer ends with {row.text('answer')[-40:]!r}; expected '#### ' and a number at the end")
    return gold.strip()


def _gsm8k(row: Row) -> Fields:
    working = MARKS.sub("", row.text("answer").rpartition("####")[0]).strip()
    gold = _gold(row)
    target = plain_number(gold)
    return {
        "question": row.text("question"),
        "target": target,
        **({} if gold == target else {"printed_target": gold}),
        "solution": f"{working}\nThe answer is {target}." if working else f"The answer is {target}.",
    }


def oddly_written(gold: str) -> str:
    """Return what may mislead a simple parser of this number; empty if nothing."""
    if "," in gold:
        return "with separators of thousands"
    return "negative" if gold.startswith(("-", "\u2212")) else "with decimals" if "." in gold else ""


GSM8K = DataSet(
    "gsm8k",
    "word problems of grade-school mathematics, with worked solutions",
    "number",
    {"question": "Ann has 3 apples and buys 4. How many has she?", "answer": "3 + 4 = <<3+4=7>>7 apples\n#### 7"},
    _gsm8k,
    {"test": 1_319, "train": 7_473},
    odd=lambda row: oddly_written(_gold(row)),
    hub=Hub("main"),
)


def _ciar(row: Row) -> Fields:
    """Read a row; the answer's numeric forms are the right answers, or all forms as texts if none is numeric."""
    answer = row.get("answer")
    forms = [str(each).strip() for each in (answer if isinstance(answer, list) else [answer])]
    numbers = list(dict.fromkeys(found for form in forms if (found := _number_in(form)) is not None))
    first, *others = numbers or forms
    fields: Fields = {"question": row.text("question"), "target": first, "kind": "number" if numbers else "text"}
    fields |= {"aliases": others} if others else {}
    if why := row.values.get("explanation"):
        fields["solution"] = f"{why} The answer is {first}."
    if wrong := row.values.get("incorrect explanation"):
        fields["decoys"] = [str(wrong)]
    return fields


def _number_in(form: str) -> str | None:
    try:
        return plain_number(form)
    except UsageError:
        return None


ARITHMETIC = DataSet(
    "arithmetic",
    "a+b*c+d-e*f with numbers from 0 to 29 (files of CIPHER's experiments)",
    "number",
    {"question": "What is the result of 1+2*3+4-5*6?", "answer": "-19"},
    lambda row: {"question": row.text("question"), "target": plain_number(str(row.get("answer")))},
    {"validation": 200, "test": 200},
    odd=lambda row: "negative" if str(row.get("answer")).strip().startswith("-") else "",
)
CIAR = DataSet(
    "ciar",
    "questions whose intuitive answer is wrong (counter-intuitive arithmetic)",
    "number",
    {"question": "...", "answer": ["15", "fifteen"], "explanation": "...", "incorrect explanation": "..."},
    _ciar,
    {"repository": 50, "paper": 200},
)
