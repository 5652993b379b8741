"""The choices of a question: checks of their list, and the choice that a text names by its letter, words or place."""

import re
import string
from collections.abc import Mapping, Sequence
from typing import Any

from sottovoce.core.errors import UsageError
from sottovoce.prompts.kinds.marks import normalise, plain

PREFIX = re.compile(r"^\(?[A-Z]\)\s*")
"""A letter that a choice may begin with."""
NUMBERED = re.compile(r"\(?(\w{1,2})[).:]\s+(?=\S)")
"""A number or letter that choices may begin with, if all do: "1. ", "b) "."""


def bare(choices: Sequence[str]) -> list[str]:
    """Return the choices without their own letters or numbers."""
    series = (string.ascii_uppercase, string.ascii_lowercase, [str(i + 1) for i in range(len(choices))])
    if any(_is_series(choices, names) for names in series):
        return [NUMBERED.sub("", choice.strip(), count=1).strip() for choice in choices]
    return [PREFIX.sub("", choice.strip()) for choice in choices]


def _is_series(choices: Sequence[str], names: Sequence[str]) -> bool:
    own = [NUMBERED.match(choice.strip()) for choice in choices]
    return bool(own) and [match and match[1] for match in own] == [*names[: len(own)]]


def letters(choices: Sequence[str]) -> str:
    """Return the letters of the choices; at least the first four are recognized."""
    return string.ascii_uppercase[: max(len(choices), 4)]


def letter_of(text: str, choices: Sequence[str]) -> str | None:
    """Return the letter of the choice that equals a text, apart from case, articles and signs."""
    wanted, texts = _key(text), [_key(choice) for choice in bare(choices)]
    return string.ascii_uppercase[texts.index(wanted)] if wanted and texts.count(wanted) == 1 else None


def _key(text: str) -> str:
    text = plain(text).strip(" .*\"'")
    is_formula = re.search(r"[\\^=+{}<>]", text) or not re.search(r"[^\W\d]{2}", text)
    return "".join(text.casefold().split()) if is_formula else normalise(text)


def choices_named(said: str, choices: Sequence[str]) -> set[str]:
    """Return the letters of the choices that a text contains; if one is part of another, only the longer."""
    plain, words = f" {normalise(said)} ", [normalise(choice) for choice in bare(choices)]
    held = [each for each in words if each and f" {each} " in plain]
    longest = [each for each in held if not any(each != other and f" {each} " in f" {other} " for other in held)]
    return {letter for letter, each in zip(string.ascii_uppercase, words, strict=False) if each in longest}


def check(choices: Sequence[str], noun: str, *, may_repeat: bool = False) -> None:
    """Refuse an unusable list of choices.

    `may_repeat`: if the target is a letter, two choices may be equal, as in some published questions.

    Raises:
        UsageError: there are fewer than two, an empty one, or two that differ only in case and spaces.
    """
    if len(choices) < 2:
        listed = repr(choices[0]) if choices else "none"
        raise UsageError(f"there are too few {noun}: {listed}; give at least two choices")
    known = dict[str, str]()
    for choice in bare(choices):
        if not re.search(r"\S", choice):
            raise UsageError(f"choices contain an empty one: {[*choices]!r}; expected a text for each")
        plain = " ".join(choice.casefold().split())
        if plain in known and not may_repeat:
            raise UsageError(f"choices contain {choice!r} twice; expected each once")
        known[plain] = choice


def target_of(question: Mapping[str, Any]) -> str | None:  # Any: a Question; its module imports this one
    """Return the target as text; None if there is none."""
    target = question.get("target")
    return None if target is None else str(target)
