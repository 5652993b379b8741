"""Data sets whose answers are numbers."""

from __future__ import annotations

import re

from sottovoce.errors import UsageError
from sottovoce.evaluation.datasets.schema import DataSet, Fields, Hub, Row

MARKS = re.compile(r"<<[^<>]*>>")
"""What a calculator was to work out: 16 - 3 - 4 = <<16-3-4=9>>9."""
PLAIN = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)")


def plain_number(said: str) -> str:
    """A number without separators of thousands, currency and percent: "$2,125.50" is "2125.50", "-10" stays.

    Du's and SDE's evaluators read the last group of digits alone, and lose signs (16 of GSM8K's 1,319).

    Raises:
        UsageError: it is none.
    """
    bare = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", re.sub(r"[\s$€£%]", "", said)).replace("\u2212", "-").rstrip(".")
    if not PLAIN.fullmatch(bare):
        raise UsageError(f"the answer is {said!r}; expected a number")
    return bare.removeprefix("+")


def _gold(row: Row) -> str:
    """What stands behind the last ####."""
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
    """What a hasty reader of numbers trips over."""
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


def _arithmetic(row: Row) -> Fields:
    return {"question": row.text("question"), "target": plain_number(str(row.get("answer")))}


def _ciar(row: Row) -> Fields:
    """Forms that are plain numbers are held against answers; where there is none, all are, as texts."""
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
    _arithmetic,
    {"validation": 200, "test": 200},
    odd=lambda row: "negative" if str(row.get("answer")).strip().startswith("-") else "",
)
CIAR = DataSet(
    "ciar",
    "questions whose first thought is wrong (counter-intuitive arithmetic)",
    "number",
    {"question": "...", "answer": ["15", "fifteen"], "explanation": "...", "incorrect explanation": "..."},
    _ciar,
    {"repository": 50, "paper": 200},
)
