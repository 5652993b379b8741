"""The choices of a question: by what they are known, and which of them no one could choose from."""

import re
import string
from collections.abc import Mapping, Sequence
from typing import Any

from sottovoce.errors import UsageError
from sottovoce.prompts.kinds.marks import PREFIX

NUMBERED = re.compile(r"\(?(\w{1,2})[).:]\s+(?=\S)")
"""What a choice may bring along where all of them do: "1. ", "b) "."""


def bare(choices: Sequence[str]) -> list[str]:
    """The choices without the letters or numbers that they bring along."""
    if _numbers(choices) or _is_series(choices, string.ascii_uppercase) or _is_series(choices, string.ascii_lowercase):
        return [NUMBERED.sub("", choice.strip(), count=1).strip() for choice in choices]
    return [PREFIX.sub("", choice.strip()) for choice in choices]


def number_named(said: str, choices: Sequence[str]) -> int | None:
    """The 1-based place of a choice in "Option 3" and "the third option", and in "3" where choices are numbered."""
    ordinals = "first|second|third|fourth|fifth|sixth|seventh|eighth".split("|")
    found = re.match(rf"\W*(?:the )?({'|'.join(ordinals)})\s(?:option|choice|one)\b", said, re.IGNORECASE)
    place = ordinals.index(found[1].lower()) + 1 if found else 0
    found = re.match(r"\W*(?:the )?((?:option|choice|number|no\.?)\W{0,3})?(\d{1,2})(?![\d.,]*\d)", said, re.IGNORECASE)
    if found and (found[1] or _numbers(choices)) and not any(re.search(r"\d", choice) for choice in bare(choices)):
        place = int(found[2])
    return place if 0 < place <= len(choices) else None


def check(choices: Sequence[str], what: str) -> None:
    """Refuse choices that nobody could choose from.

    Raises:
        UsageError: there are fewer than two, an empty one, or two that are the same but for case and spaces.
    """
    if len(choices) < 2:
        found = repr(choices[0]) if choices else "none"
        raise UsageError(f"{what} are chosen from, and there is {found}; give at least two choices")
    known = dict[str, str]()
    for choice in bare(choices):
        if not re.search(r"\S", choice):
            raise UsageError(f"choices hold an empty one: {[*choices]!r}; expected a text each")
        plain = " ".join(choice.casefold().split())
        if plain in known:
            raise UsageError(f"choices hold {choice!r} twice; expected each once")
        known[plain] = choice


def target_of(question: Mapping[str, Any]) -> str | None:  # Any: a Question, which stands above
    """The target as a text; None where there is none."""
    target = question.get("target")
    return None if target is None else str(target)


def _numbers(choices: Sequence[str]) -> bool:
    return _is_series(choices, [str(i + 1) for i in range(len(choices))])


def _is_series(choices: Sequence[str], names: Sequence[str]) -> bool:
    own = [NUMBERED.match(choice.strip()) for choice in choices]
    return bool(own) and [found and found[1] for found in own] == [*names[: len(own)]]
