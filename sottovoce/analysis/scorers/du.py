"""Du et al. (2023), gsm/eval_gsm.py and mmlu/eval_mmlu.py: the majority of the last round, ties to the first agent.

Misreadings: of a right answer with a thousands comma only the last group of digits counts, and its sign is lost;
if most agents give no number, "none" wins the vote and scores 1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sottovoce.analysis.scorers import Scorer, Texts

NUMBER = re.compile(r"\d+\.?\d*")
BRACES = re.compile(r"\{([0-9.,$]*)\}")
LETTER = re.compile(r"\((\w)\)")


def last_number(text: str) -> str | None:
    """Return the last run of digits, with an optional decimal part: "-1,300" is 300."""
    found: list[str] = NUMBER.findall(text)
    return found[-1] if found else None


def in_braces(text: str) -> str | None:
    """Return the last number in braces without dollar signs and commas; None if no braces contain a digit or dot."""
    found = [re.sub(r"[^0-9.]", "", each) for each in BRACES.findall(text)]
    return next((each for each in reversed(found) if each), None)


def most_frequent(answers: Sequence[str | None]) -> str | None:
    """Return the most frequent answer; of equally frequent ones, the first."""
    return max(answers, key=answers.count)


def number(texts: Texts, gold: str, choices: Sequence[str] = ()) -> float:
    """Score GSM8K.

    >>> number(["It is {300}."], "1,300"), number(["No idea.", "Nor I.", "{7}"], "8")
    (1.0, 1.0)
    """
    wanted, won = last_number(gold), most_frequent([in_braces(text) or last_number(text) for text in texts])
    if won is None:
        return 1.0
    return float(wanted is not None and as_float(won) == as_float(wanted))


def option(texts: Texts, gold: str, choices: Sequence[str] = ()) -> float:
    """Score MMLU by the last letter in parentheses, else the last number; replies with neither do not vote."""
    read = [letter_of(text) or last_number(text) for text in texts]
    votes = [each for each in read if each is not None]
    return float(bool(votes) and most_frequent(votes) == gold.upper())


def letter_of(text: str) -> str | None:
    """Return the last single word character in parentheses, in upper case."""
    found = LETTER.findall(text)
    return found[-1].upper() if found else None


def as_float(text: str) -> float | None:
    """Return the number; None for a text such as "1.2.3", at which the published program failed."""
    try:
        return float(text)
    except ValueError:
        return None


SCORERS: dict[str, Scorer] = {"number": number, "option": option}
