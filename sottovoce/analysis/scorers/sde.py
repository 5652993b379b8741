"""The evaluators of SDE (arXiv 2506.19209, StateDelta): the mean over the agents' answers of the last round.

Misreadings: signs are lost; "42.", "18.00" and "3.0" are not integers and count as wrong; of a right answer with a
thousands comma only the last group of digits counts; any character in parentheses is a letter; an unclosed brace
drops the last character.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Sequence
from statistics import fmean

from sottovoce.analysis.scorers import Scorer, Texts
from sottovoce.analysis.scorers.du import in_braces, last_number, letter_of
from sottovoce.prompts.kinds import normalise

ALONE = re.compile(r"\b([A-D])\b")
PROMPTED = "(X)"
"""The placeholder of the prompt, which replies repeat."""


def integer_of(text: str) -> int | None:
    """Return the whole text, else the last number in braces, else the last of all; None if it is not an integer."""
    return _integer(text) if _integer(text) is not None else _integer(in_braces(text) or last_number(text) or "")


def _integer(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def letter(text: str, choices: Sequence[str]) -> str | None:
    """Return the letter in parentheses, else that of the choice in the box, else the last standalone A to D."""
    plain = text.replace(PROMPTED, "")
    if (marked := letter_of(plain)) is not None:
        return marked
    boxed = extracted(plain, ("boxed{",))
    if boxed in choices:
        return string.ascii_uppercase[[*choices].index(boxed)]
    alone: list[str] = ALONE.findall(plain)
    return alone[-1] if alone else None


def extracted(text: str, marks: Sequence[str] = ("text{", "boxed{")) -> str:
    r"""Return the text after the last \text{, else after the last \boxed{, up to the first }; else the whole text.

    >>> extracted(r"\boxed{\text{Orla}}"), extracted(r"so \boxed{Orla.")
    ('Orla', 'Orla')
    """
    for mark in marks:
        if mark in text:
            inside = text.rpartition(mark)[2]
            return inside[: inside.find("}")]  # -1 if no brace closes it
    return text


def _mean(right: Callable[[str], bool], texts: Texts) -> float:
    return fmean(right(text) for text in texts)


def number(texts: Texts, gold: str, choices: Sequence[str] = ()) -> float:
    """Score GSM8K.

    >>> number(["{300}", "-300", "300.0", "301"], "1,300")
    0.5
    """
    wanted = integer_of(gold)
    return _mean(lambda text: wanted is not None and integer_of(text) == wanted, texts)


def option(texts: Texts, gold: str, choices: Sequence[str] = ()) -> float:
    """Score MMLU."""
    return _mean(lambda text: letter(text, choices) == gold.upper(), texts)


def span(texts: Texts, gold: str, choices: Sequence[str] = ()) -> float:
    """Score EM of the question-answering sets, and StrategyQA and FEVER, whose replies must be the label alone."""
    return _mean(lambda text: normalise(extracted(text)) == normalise(gold), texts)


SCORERS: dict[str, Scorer] = {"number": number, "option": option, "text": span, "yes_no": span, "label": span}
