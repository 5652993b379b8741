"""The kind of a question that names none: by its choices, its target, or its wording."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from sottovoce.core.any_types import Unimported
from sottovoce.prompts.kinds.number import target as number_in
from sottovoce.prompts.kinds.sentences import sentences

LONGEST = 2000  # characters of a question that are examined, from its end
EXPRESSION = re.compile(
    r"(?<![\w.])(?:\d+(?:[.,]\d+)*|[a-z])\s*(?:[-+*/×÷^]|\\times|times|plus|minus)\s*\(?\s*(?:\d|[a-z]\b)", re.I
)
ASKS_WORDS = re.compile(r"\W*(?:which|who|where|when|why|how|explain|describe)\b", re.IGNORECASE)
COMPUTES = re.compile(
    r"\W*(?:please\s+)?(?:compute|calculate|evaluate|simplify|solve|add|multiply|subtract|divide)\b", re.I
)
COUNTS = re.compile(r"\bhow (?:many|much)\b|\bwhat (?:is|was|are|will be|would be) the (?:number|count) of\b", re.I)
QUANTITY = re.compile(
    r"\b(?:what|find)\b.{0,40}\b(?:sum|product|difference|total|average|mean|amount|percent(?:age)?|probability|value"
    r"|area|volume|perimeter|length|distance|speed|cost|price|profit|age|weight|height|remainder)\b",
    re.IGNORECASE,
)
YES_NO = re.compile(
    r"\W*(?:(?:and|but|so|then|also|now)\W+)?(?:is|are|was|were|am|do|does|did|has|have|had|can|could|will|would"
    r"|shall|should|may|might|must)(?:n't)?\s",
    re.IGNORECASE,
)
ALTERNATIVES = re.compile(r"\bor\b(?!\s+(?:not|more|less|fewer|so)\b)", re.IGNORECASE)


def kind_of(question: Mapping[str, Unimported]) -> str:
    """Return the kind that a question sets, else that of its choices or target, else the one its wording asks for."""
    if kind := question.get("kind"):
        return str(kind)
    if question.get("choices"):
        return "option"
    target = question.get("target")
    if isinstance(target, str) and target.strip().lower() in ("yes", "no", "true", "false"):
        return "yes_no"
    if isinstance(target, str) and number_in(target, ()):
        return "number"
    return _of_wording(str(question.get("question", "")), target is not None)


@lru_cache(1024)  # it is asked for with every message
def _of_wording(question: str, has_target: bool) -> str:
    """Return the kind that a question clearly asks for, else `text`; with a phrase as target only if it computes."""
    lines = sentences(question[-LONGEST:])
    asks = ([line for line in lines if line.endswith("?") and len(line.split()) > 2] or lines or [""])[-1]
    if COMPUTES.match(asks) or (EXPRESSION.search(asks) and not YES_NO.match(asks) and not ASKS_WORDS.match(asks)):
        return "number"
    if has_target or (YES_NO.match(asks) and ALTERNATIVES.search(asks)):
        return "text"
    is_quantity = QUANTITY.search(asks) and len(re.findall(r"\d", question)) > 1
    return "number" if COUNTS.search(asks) else "yes_no" if YES_NO.match(asks) else "number" if is_quantity else "text"
