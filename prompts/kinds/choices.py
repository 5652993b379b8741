"""The choices of a question: how texts name them, and checks of their list."""

import re
import string
from collections.abc import Mapping, Sequence
from typing import Any

from sottovoce.core.errors import UsageError
from sottovoce.prompts.kinds.marks import PREFIX, normalise
from sottovoce.prompts.kinds.nothing import UNKNOWN
from sottovoce.prompts.kinds.prose import plain

NUMBERED = re.compile(r"\(?(\w{1,2})[).:]\s+(?=\S)")
"""A number or letter that choices may begin with, if all do: "1. ", "b) "."""


def bare(choices: Sequence[str]) -> list[str]:
    """Return the choices without their own letters or numbers."""
    if _numbers(choices) or _is_series(choices, string.ascii_uppercase) or _is_series(choices, string.ascii_lowercase):
        return [NUMBERED.sub("", choice.strip(), count=1).strip() for choice in choices]
    return [PREFIX.sub("", choice.strip()) for choice in choices]


def without_denying_words(text: str, choices: Sequence[str]) -> str:
    """Return a text with "(E)" for "(E) None of these", so that the choice is not parsed as an abstention."""
    for letter, choice in zip(string.ascii_uppercase, bare(choices), strict=False):
        said = plain(choice).strip(" .")
        if UNKNOWN.match(said):
            words = r"\s+".join(map(re.escape, said.split()))
            sign = rf"(?:\({letter}\)|(?<!\w){letter}(?!\w))"
            text = re.sub(
                rf"(?:{sign}[).:,]{{0,2}}\s?[-\u2013\u2014=]?\s?[\"']?(?i:{words})\b[\"']?|(?i:{words})[\s,]{{1,2}}{sign})",
                f"({letter})",
                text,
            )
    return text


def number_named(said: str, choices: Sequence[str]) -> int | None:
    """Return the 1-based number of a choice named as "Option 3" or "the third option", or "3" in numbered choices."""
    ordinals = "first|second|third|fourth|fifth|sixth|seventh|eighth".split("|")
    found = re.match(rf"\W*(?:the )?({'|'.join(ordinals)})\s(?:option|choice|one)\b", said, re.IGNORECASE)
    place = ordinals.index(found[1].lower()) + 1 if found else 0
    found = re.match(r"\W*(?:the )?((?:option|choice|number|no\.?)\W{0,3})?(\d{1,2})(?![\d.,]*\d)", said, re.IGNORECASE)
    if found and (found[1] or _numbers(choices)) and not any(re.search(r"\d", choice) for choice in bare(choices)):
        place = int(found[2])
    return place if 0 < place <= len(choices) else None


def letters(choices: Sequence[str]) -> str:
    """Return the letters of the choices; at least the first four are recognized."""
    return string.ascii_uppercase[: max(len(choices), 4)]


def letter_of(text: str, choices: Sequence[str]) -> str | None:
    """Return the letter of the choice that equals a text, apart from case, articles and signs."""
    given, each = normalise(text), [normalise(choice) for choice in bare(choices)]
    return string.ascii_uppercase[each.index(given)] if given and each.count(given) == 1 else None


def named(said: str, choices: Sequence[str]) -> list[str]:
    """Return the letters of the choices that a text contains; if one is part of another, only the longer."""
    plain = f" {normalise(said)} "
    words = {string.ascii_uppercase[i]: normalise(choice) for i, choice in enumerate(bare(choices))}
    found = {letter: each for letter, each in words.items() if each and f" {each} " in plain}
    within = {one for one in found.values() for other in found.values() if one != other and f" {one} " in f" {other} "}
    return [letter for letter, each in found.items() if each not in within]


def ends_with(said: str, choices: Sequence[str]) -> str | None:
    """Return the letter of the only choice that a text names, if the text ends with it."""
    found = named(said, choices)
    words = normalise(bare(choices)[string.ascii_uppercase.index(found[0])]) if len(found) == 1 else ""
    return found[0] if words and f" {normalise(said)}".endswith(f" {words}") else None


def check(choices: Sequence[str], what: str, *, may_repeat: bool = False) -> None:
    """Refuse an unusable list of choices.

    `may_repeat`: if the target is a letter, two choices may be equal, as in some published questions.

    Raises:
        UsageError: there are fewer than two, an empty one, or two that differ only in case and spaces.
    """
    if len(choices) < 2:
        found = repr(choices[0]) if choices else "none"
        raise UsageError(f"{what} are chosen from, and there is {found}; give at least two choices")
    known = dict[str, str]()
    for choice in bare(choices):
        if not re.search(r"\S", choice):
            raise UsageError(f"choices hold an empty one: {[*choices]!r}; expected a text each")
        plain = " ".join(choice.casefold().split())
        if plain in known and not may_repeat:
            raise UsageError(f"choices hold {choice!r} twice; expected each once")
        known[plain] = choice


def target_of(question: Mapping[str, Any]) -> str | None:  # Any: a Question; its module imports this one
    """Return the target as text; None if there is none."""
    target = question.get("target")
    return None if target is None else str(target)


def _numbers(choices: Sequence[str]) -> bool:
    return _is_series(choices, [str(i + 1) for i in range(len(choices))])


def _is_series(choices: Sequence[str], names: Sequence[str]) -> bool:
    own = [NUMBERED.match(choice.strip()) for choice in choices]
    return bool(own) and [found and found[1] for found in own] == [*names[: len(own)]]
