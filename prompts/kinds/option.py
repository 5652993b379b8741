"""Options: one of several choices, by its letter; a letter beyond the last choice is not an answer."""

import re
import string
from collections.abc import Mapping, Sequence
from typing import Any

from sottovoce.core.errors import UsageError
from sottovoce.core.response_format import Form
from sottovoce.prompts.kinds import choices as known
from sottovoce.prompts.kinds.choices import (
    claimed_letter,
    heading_letter,
    implied_letter,
    letter_by_value,
    letter_range,
    opening_letter,
)
from sottovoce.prompts.kinds.kind import Choices, Kind
from sottovoce.prompts.kinds.marks import CLOSING
from sottovoce.prompts.kinds.prose import CLAUSE, UNKNOWN, affirmed, first, is_whole, plain, without_reason

NOUNS = "answer|option|choice"
CHANGES = re.compile(
    r"\b(?:wait|actually|second thought|correction|mistake|sorry|agent|disagree|therefore|thus|hence)\b", re.IGNORECASE
)
"""Words of a text that mentions an answer without giving it, or that concludes with another."""
CORRECTS = re.compile(r"\bcorrect(?:ed)? (?:answer|option|choice|letter)\b", re.IGNORECASE)
"""Words of a statement that takes precedence over the letter at the beginning of a text."""
LONG = 60  # words; a longer text that is cut off may mention a letter only in passing
CONDITION = re.compile(r"\bbut only\b", re.IGNORECASE)
LEADING = re.compile(
    r"[\W_]*(?:(?:indeed|definitely|clearly|probably|most likely|certainly)\s)?"
    r"(?:(?:option|choice|letter|answer)\b\W*)?([A-Za-z])(?![\w'])([).:]*)(\s+[a-z])?",
    re.IGNORECASE,
)
JOINED = re.compile(r"[\s(]*(?-i:[A-Z])\W{0,3}\s?(?:or|and|/)\s*\(?(?-i:[A-Z])\b", re.IGNORECASE)
"""Two letters, without a choice between them."""


def read(text: str, choices: Choices) -> str | None:
    """Return the last letter or choice that a text without a mark claims."""
    body = known.without_denying_words(plain(text), choices)
    if len(body.split()) > LONG and not is_whole(text):
        return None  # it is cut off among the choices
    return _existing(claimed_letter(body, choices) or letter_by_value(text, choices), choices)


def _existing(letter: str | None, choices: Choices) -> str | None:
    """Return the letter if a choice has it: "D. temperature" with two choices is an abstention."""
    existing = string.ascii_uppercase[: len(choices) or None]
    return letter if letter and letter in existing else None


def read_value(field: str, choices: Choices) -> str | None:
    """Return the choice named by a letter in any case or by its text, or else the result of `read`."""
    letter = _named(plain(field), choices)
    return read(field, choices) if letter is None else letter or None


def _named(source: str, choices: Choices) -> str | None:
    """Return the letter that a statement names; empty if no choice has it."""
    letter = _of(known.without_denying_words(source, choices), choices)
    return letter and (_existing(letter, choices) or "")


def contradicts(said: Sequence[str | None], body: str, choices: Choices) -> bool:
    """Return whether a text begins with one letter and states another, without a word of change or an answer line."""
    stated, begun = {*filter(None, said)}, opening_letter(body, choices)
    if CHANGES.search(body) or CLOSING.search(body):
        return False
    if len(stated) > 1:
        return bool(begun or heading_letter(body, choices))
    return bool(begun and stated and begun not in stated) and not CORRECTS.search(body)


def _of(source: str, choices: Choices) -> str | None:
    """Return the letter that a mark names; empty if it says there is none, None if it is about something else."""
    if lone := re.fullmatch(rf"\W{{0,9}}({letter_range(choices)})\W{{0,9}}", source):
        return lone[1]
    for said in (source, first(source), affirmed(without_reason(source, CLAUSE)), first(affirmed(source))):
        if named := known.letter_of(said, choices):  # also "None of these", "Cannot be determined"
            return named
    said = affirmed(without_reason(source, CLAUSE))
    if not said and not re.search(rf"\b{letter_range(choices)}\b", source):  # "not a valid option"
        return None
    if CONDITION.search(said) or UNKNOWN.match(said) or not said or JOINED.match(re.sub(r"^\W*either\b", "", said)):
        return ""
    if (letter := letter_led_by(said, choices)) is not None:
        return letter
    if place := known.number_named(said, choices):
        return string.ascii_uppercase[place - 1]
    bracketed = re.findall(rf"\(({letter_range(choices)})\)", said)
    letters = {*(bracketed or re.findall(r"\b([B-HJ-Z])\b(?!\.\s?[A-Z])", said))}
    letters &= {*known.letters(choices)}
    letters = letters or {*known.choices_named(first(said), choices)}
    return letters.pop() if len(letters) == 1 else None


def letter_led_by(said: str, choices: Choices) -> str | None:
    """Return the letter that a phrase begins with: "B", "(b) blue", "option C"; not an article.

    It counts whatever follows it, also "(E) None of the above": the letter of a choice means that choice.
    """
    match = LEADING.match(said)
    letter = match[1].upper() if match else ""
    if not match or letter not in known.letters(choices):
        return None
    if match[3] and not match[2] and (match[1] in "AI" or match[1].islower()):
        return None
    return letter


def check(question: Mapping[str, Any]) -> None:  # Any: see Kind
    """Refuse an unusable list of choices, and a target that is not in it."""
    choices, target = question.get("choices") or [], known.target_of(question)
    known.check(choices, "options", may_repeat=target is not None and len(target) == 1 and target.isupper())
    if target is not None and canonical(target, choices) is None:
        last = string.ascii_uppercase[len(choices) - 1]
        raise UsageError(
            f"target is {target!r}; expected a letter from A to {last}, or one of the choices: {choices!r}"
        )


def canonical(target: str, choices: Choices) -> str | None:
    """Return the letter of a target that is a letter or a choice's text."""
    for i, choice in enumerate(known.bare(choices)):
        if target.strip() in (choice, choices[i]):
            return string.ascii_uppercase[i]
    letter = target.strip(" ().").upper()
    return letter if len(letter) == 1 and letter in string.ascii_uppercase[: len(choices)] else None


def grammar(choices: Choices) -> Form:
    """Return a format with the letters of the choices."""
    return Form(choices=tuple(known.letters(choices)[: len(choices) or None]))


OPTION = Kind(
    "option",
    "answers/option",
    "a letter",
    read,
    read_value,
    grammar=grammar,
    check=check,
    target=canonical,
    named=_named,
    nouns=NOUNS,
    contradicts=contradicts,
    implied=implied_letter,
)
