"""Du et al. (2023), gsm/eval_gsm.py and mmlu/eval_mmlu.py: the majority of the last round, ties to the first agent.

What was misread: a thousands comma in the right answer leaves its last group of digits, and its sign is lost (row
39); where most agents give no number, "none" wins the vote and scores 1 (row 40).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sottovoce.evaluation.scorers import Scorer, Texts

NUMBER = re.compile(r"\d+\.?\d*")
BRACES = re.compile(r"\{([0-9.,$]*)\}")
LETTER = re.compile(r"\((\w)\)")


def last_number(text: str) -> str | None:
    """The last run of digits, perhaps with a dot: "-1,300" is 300."""
    found: list[str] = NUMBER.findall(text)
    return found[-1] if found else None


def in_braces(text: str) -> str | None:
    """The last number in braces, its signs and commas dropped; None where no braces hold a digit or a dot."""
    found = [re.sub(r"[^0-9.]", "", each) for each in BRACES.findall(text)]
    return next((each for each in reversed(found) if each), None)


def most_frequent(answers: Sequence[str | None]) -> str | None:
    """Of several, the first."""
    return max(answers, key=answers.count)


def number(texts: Texts, gold: str, choices: Sequence[str] = ()) -> float:
    """GSM8K.

    >>> number(["It is {300}."], "1,300"), number(["No idea.", "Nor I.", "{7}"], "8")
    (1.0, 1.0)
    """
    wanted, won = last_number(gold), most_frequent([in_braces(text) or last_number(text) for text in texts])
    if won is None:
        return 1.0
    return float(wanted is not None and as_float(won) == as_float(wanted))


def option(texts: Texts, gold: str, choices: Sequence[str] = ()) -> float:
    """MMLU: the last letter in parentheses, else the last number; who has neither has no vote."""
    read = [letter_of(text) or last_number(text) for text in texts]
    votes = [each for each in read if each is not None]
    return float(bool(votes) and most_frequent(votes) == gold.upper())


def letter_of(text: str) -> str | None:
    """The last sign in parentheses, upper-cased."""
    found = LETTER.findall(text)
    return found[-1].upper() if found else None


def as_float(text: str) -> float | None:
    """None for what Python reads as no number, at which the published program stopped: "1.2.3"."""
    try:
        return float(text)
    except ValueError:
        return None


SCORERS: dict[str, Scorer] = {"number": number, "option": option}
