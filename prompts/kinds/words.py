"""Answers in words: yes or no, labels, and free text.

True and false count as yes and no. A label is a choice of the question as written there, or one of the task's own in
lowercase; it is read with any signs between its words and in any form of its verb ("supported"), unless it is denied.
Free text is a few words as written: "Paris", "Letters of Clay", "Argentina, Brazil". Reasons, sources and remarks in
brackets are not part of it, and a statement of a whole sentence of more than eight words states no answer; `same` says
when two texts agree.
"""

import re
import string
from collections.abc import Mapping
from typing import Any

from sottovoce.core.errors import UsageError
from sottovoce.core.response_format import Form
from sottovoce.prompts.kinds.kind import (
    ABOUT,
    UNKNOWN,
    VERB,
    Choices,
    Kind,
    affirmed,
    first,
    is_bare,
    key,
    names,
    without_reason,
)
from sottovoce.prompts.kinds.marks import BLANK
from sottovoce.prompts.kinds.option import check_list

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


def read_yes_no(said: str, choices: Choices) -> str | None:
    """Return yes or no; empty for both or unknown, None for neither."""
    if denied := re.match(r"\W*not (?:\w+ )?(true|correct|right|false)\b", said, re.IGNORECASE):
        return "yes" if denied[1].lower() == "false" else "no"
    stated = first(affirmed(said))
    said_too = {MEANING[match[1].lower()] for match in CLAUSE.finditer(said.partition("\n")[0])}
    if UNKNOWN.match(said) or BOTH.search(said) or not stated or len(said_too) > 1:
        return ""
    match = WORD.match(stated)
    return MEANING[match[1].lower()] if match else None


def is_yes_no(line: str, choices: Choices) -> bool:
    """Return whether a line is yes or no, also "No, it is not"."""
    return bool(re.fullmatch(rf"\W*(?:{_WORD})(?:,?\s(?:it|they|he|she)\s\w+(?:n't|\snot)?)?\W*", line, re.IGNORECASE))


def check_yes_no(question: Mapping[str, Any]) -> None:  # Any: see Kind
    """Refuse a target that is neither yes nor no."""
    text = str(question.get("target", "yes"))
    if text.strip().lower() not in ("yes", "no", "true", "false"):
        raise UsageError(f"target is {text!r}; expected yes or no")


YES_NO = Kind(
    "yes or no",
    "answers/yes_no",
    "yes or no",
    read_yes_no,
    is_yes_no,
    grammar=lambda choices: Form(choices=("yes", "no")),
    check=check_yes_no,
    target=lambda text, choices: MEANING.get(text.strip().lower()),  # also of true and false
)


# Labels

FRAME = re.compile(
    r"\([^()]{0,80}\)|\b(?:(?:the|this) \w+ (?:is|are)|the|this|that|it|an?|my|so|claim|statement|conclusion|passages?"
    r"|evidence|text|documents?|answer|label|verdict|is|are|clearly|definitely|therefore|thus|indeed|fully|directly|by|as)\b"
    r"|[\W_]",
    re.IGNORECASE,
)
"""Words around a label that leave it as it is."""
LONGEST_LABEL = 60  # characters of a label without a list


def _pattern(label: str) -> str:
    """Return a pattern of a label with any signs between its words, and other forms: "supported", "information"."""
    word = re.sub(r"[\W_]+", " ", label.casefold()).strip()
    form = r"[\W_]{1,3}".join(map(re.escape, word.split()))
    if re.fullmatch(r"(?:support|refute|contradict)s", word):
        return form[:-1] + "(?:s|d|ed)?"
    return form + r"(?:rmation)?" if word.endswith("info") else form


def read_label(said: str, choices: Choices) -> str | None:
    """Return the label that a statement names; empty for several, or for one with a reserve; None without a label."""
    stated = first(without_reason(said))
    if not choices:
        label = stated.strip(" .*\"'[]").lower()
        return label if len(label) <= LONGEST_LABEL else None
    found = [label for label in choices if re.search(rf"(?<![^\W_]){_pattern(label)}(?![^\W_])", stated, re.IGNORECASE)]
    longest = [label for label in found if not any(label != other and label in other for other in found)]
    if len(longest) == 1:
        rest = re.sub(_pattern(longest[0]), " ", stated, flags=re.IGNORECASE)
        return longest[0] if not FRAME.sub("", rest) and not stated.rstrip().endswith("?") else ""
    letter = re.fullmatch(r"\W*([A-Z])\W*", said)
    if letter and (place := string.ascii_uppercase.index(letter[1])) < len(choices):  # as choices are shown
        return choices[place]
    return "" if longest else None


def is_label(line: str, choices: Choices) -> bool:
    """Return whether a line is a label of the list and nothing else, or without a list a few words."""
    return (
        any(re.fullmatch(rf"\W*{_pattern(each)}\W*", line, re.I) for each in choices)
        if choices
        else is_bare(line, choices)
    )


def check_label(question: Mapping[str, Any]) -> None:  # Any: see Kind
    """Refuse an unusable list of labels, and a target that is not in it."""
    choices, target = question.get("choices") or [], question.get("target")
    if not choices:
        return
    check_list(choices, "labels")
    if target is not None and str(target).casefold().split() not in [label.casefold().split() for label in choices]:
        raise UsageError(f"target is {target!r}; expected one of the labels: {', '.join(map(repr, choices))}")


LABEL = Kind(
    "label",
    "answers/label",
    "a label",
    read_label,
    is_label,
    grammar=lambda choices: Form(choices=tuple(choices)) if choices else None,
    check=check_label,
    nouns="answer|label|verdict|classification|decision",
    unknown_is_an_answer=True,
)


# Free text

LONGEST = 8  # words of an answer that agrees with a part of it
SOURCE = re.compile(r"\s+\[[^\[\]\n]{0,80}\]|\s+\((?!\d{4}\))[^()\n]{0,120}\)[\s.]*\Z")
QUOTES = "\"'\u201c\u201d\u2018\u2019\u00ab\u00bb\u300c\u300d*` "


def read_text(said: str, choices: Choices) -> str | None:
    """Return the phrase that a statement names; empty if it says that there is none."""
    inner = re.fullmatch(r"\W*\[([^\[\]]+)\]\W*", said)
    stated = affirmed(first(inner[1] if inner else said))
    if UNKNOWN.match(stated) or (said.strip() and not stated):
        return ""
    stated = stated if inner else SOURCE.sub("", stated)
    items = [line.strip() for line in stated.split("\n") if line.strip()]
    joined = ", ".join(item.rstrip(".,;") if len(items) > 1 else item for item in items).strip(QUOTES)
    phrase = joined.rstrip(" .,;:!\u3002").rstrip(QUOTES.replace("'", ""))
    if re.search(r"\b[A-Z]\.[A-Z]\Z", phrase) and joined[len(phrase) : len(phrase) + 1] == ".":
        phrase += "."  # of "U.S." and "J. R. R."
    if (BLANK.fullmatch(phrase) and not re.search(r"[+#]", phrase)) or ABOUT.match(phrase):
        return None
    return "" if len(phrase.split()) > LONGEST and VERB.search(phrase) else phrase


def same(left: str, right: str) -> bool:
    """Return whether two texts are equal by SQuAD's rules, or have at most eight words each and one names the other."""
    is_short = max(len(left.split()), len(right.split())) <= LONGEST
    return key(left) == key(right) or (is_short and (names(left, right) or names(right, left)))


def is_right(answer: str, target: str) -> bool:
    """Return whether an answer is the target, or has at most eight words and names it."""
    return key(answer) == key(target) or (len(answer.split()) <= LONGEST and names(target, answer))


def check_text(question: Mapping[str, Any]) -> None:  # Any: see Kind
    """Refuse a target without a letter, figure or sign."""
    text = str(question.get("target", "x"))
    if not text.strip():
        raise UsageError(f"target is {text!r}; expected a few words")


TEXT = Kind("text", "answers/text", "a few words", read_text, same=same, right=is_right, check=check_text)
