"""Recognition of the kind of answer that a question asks for, if none is set."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from sottovoce.prompts.kinds.about import asked

EXPRESSION = re.compile(
    r"\A(?!\W*(?:which|who|where|when|why|how|explain|describe)\b)[^\n]*?"
    r"(?<![\w.])(?:\d+(?:[.,]\d+)*|[a-z])\s*(?:[-+*/×÷^]|\\times|times|plus|minus)\s*\(?\s*(?:\d|[a-z]\b)",
    re.IGNORECASE,
)
"""An operation on figures or single letters: "14 + 3", "l + y * o"."""
COMPUTES = re.compile(
    r"\W*(?:please\s+)?(?:compute|calculate|evaluate|simplify|solve|add|multiply|subtract|divide)\b", re.IGNORECASE
)
COUNTS = re.compile(
    r"\b(?:how (?:many|much)|what (?:is|was|are|will be|would be) the (?:number|count) of)\b", re.IGNORECASE
)
QUANTITY = re.compile(
    r"\b(?:what|find)\b.{0,40}\b(?:sum|product|difference|quotient|total|average|mean|median|amount|percent(?:age)?"
    r"|probability|value|area|volume|perimeter|length|distance|speed|cost|price|profit|age|weight|height|remainder)\b",
    re.IGNORECASE,
)
"""A quantity; the answer is a number only if the question has figures to calculate it from."""
YES_NO = re.compile(
    r"\W*(?:(?:and|but|so|then|also|now)\W+)?(?:is|are|was|were|am|do|does|did|has|have|had|can|could|will|would"
    r"|shall|should|may|might|must)(?:n't)?\s",
    re.IGNORECASE,
)
ALTERNATIVES = re.compile(r"\bor\b(?!\s+(?:not|more|less|fewer|so)\b)", re.IGNORECASE)
FIGURE = re.compile(r"\d")


def kind_of(question: Mapping[str, Any]) -> str:  # Any: a Question; its module imports this one
    """Return the kind that a question sets, else the one that it clearly asks for, else `text`.

    A question with choices is an option. A target of yes, no or a number determines the kind; else the wording does:
    a computation, a count, a yes-or-no question. With a phrase as target, all but a computation is text.
    """
    if kind := question.get("kind"):
        return str(kind)
    if question.get("choices"):
        return "option"
    sentence, target = asked(str(question.get("question", ""))), question.get("target")
    if found := _of_target(target):
        return found
    if COMPUTES.match(sentence) or (EXPRESSION.search(sentence) and not YES_NO.match(sentence)):
        return "number"
    return "text" if target is not None else _of_wording(sentence, str(question.get("question", "")))


def _of_target(target: object) -> str | None:
    given = target.strip().lower() if isinstance(target, str) else ""
    if given in ("yes", "no"):
        return "yes_no"
    try:
        return "number" if math.isfinite(float(given)) else None
    except ValueError:
        return None


def _of_wording(sentence: str, question: str) -> str:
    if COUNTS.search(sentence):
        return "number"
    if YES_NO.match(sentence):
        return "text" if ALTERNATIVES.search(sentence) else "yes_no"
    return "number" if QUANTITY.search(sentence) and len(FIGURE.findall(question)) > 1 else "text"
