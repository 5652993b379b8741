"""Yes-or-no answers; true and false count as yes and no."""

import re
from collections.abc import Mapping
from typing import Any

from sottovoce.core.errors import UsageError
from sottovoce.core.response_format import Form
from sottovoce.prompts.kinds.kind import Choices, Kind
from sottovoce.prompts.kinds.sentences import UNKNOWN, affirmed, first

MEANING = dict.fromkeys(["yes", "yeah", "yep", "yup", "affirmative", "true", "ja", "oui", "sí", "sì", "да"], "yes")
MEANING |= dict.fromkeys(["no", "nope", "nah", "false", "nein", "non", "não", "нет"], "no")
MEANING |= dict.fromkeys(["是", "对", "はい", "예", "네"], "yes") | dict.fromkeys(
    ["否", "不是", "いいえ", "아니요"], "no"
)
_WORD = "|".join(sorted(MEANING, key=len, reverse=True))
WORD = re.compile(
    rf"[\W_]*(?:(?:an?|that|definite(?:ly)?|clear(?:ly)?|probably|most likely|simply|still|it is|it's)\s){{0,3}}\W?"
    rf"({_WORD})(?![^\W\d_'])(?!\s(?!(?:it|this|that|they|he|she|there|we|i|you|the|both|indeed)\b)\w)",
    re.IGNORECASE,
)
BOTH = re.compile(r"\b(?:yes\W{0,3}(?:\s(?:or|and)\s|/)\W?no|no\W{0,3}(?:\s(?:or|and)\s|/)\W?yes)\b", re.IGNORECASE)
CLAUSE = re.compile(rf"(?:\A|[;,:.]\s|\bbut\s)\W?({_WORD})(?![^\W\d_'])", re.IGNORECASE)


def read(said: str, choices: Choices) -> str | None:
    """Return yes or no; empty for both or unknown, None for neither."""
    if denied := re.match(r"\W*not (?:\w+ )?(true|correct|right|false)\b", said, re.IGNORECASE):
        return "yes" if denied[1].lower() == "false" else "no"
    stated = first(affirmed(said))
    said_too = {MEANING[match[1].lower()] for match in CLAUSE.finditer(said.partition("\n")[0])}
    if UNKNOWN.match(said) or BOTH.search(said) or not stated or len(said_too) > 1:
        return ""
    match = WORD.match(stated)
    return MEANING[match[1].lower()] if match else None


def is_bare(line: str, choices: Choices) -> bool:
    """Return whether a line is yes or no, also "No, it is not"."""
    return bool(re.fullmatch(rf"\W*(?:{_WORD})(?:,?\s(?:it|they|he|she)\s\w+(?:n't|\snot)?)?\W*", line, re.IGNORECASE))


def check(question: Mapping[str, Any]) -> None:  # Any: see Kind
    """Refuse a target that is neither yes nor no."""
    text = str(question.get("target", "yes"))
    if text.strip().lower() not in ("yes", "no", "true", "false"):
        raise UsageError(f"target is {text!r}; expected yes or no")


YES_NO = Kind(
    "yes or no",
    "answers/yes_no",
    "yes or no",
    read,
    is_bare,
    grammar=lambda choices: Form(choices=("yes", "no")),
    check=check,
    target=lambda text, choices: MEANING.get(text.strip().lower()),  # also of true and false
)
