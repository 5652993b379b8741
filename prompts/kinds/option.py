"""Options: one of several choices, by its letter or its own words; several letters are an abstention.

A letter of a choice is that choice, whatever its text says: "(E) None of the above" is E. A letter beyond the last
choice is not an answer.
"""

import re
import string
from collections.abc import Mapping, Sequence
from typing import Any

from sottovoce.core.errors import UsageError
from sottovoce.core.response_format import Form
from sottovoce.prompts.kinds.kind import OTHERWISE, UNKNOWN, VERB, Choices, Kind, affirmed, first, key, names, stands_in
from sottovoce.prompts.kinds.marks import normalise, plain

PREFIX = re.compile(r"^\(?[A-Z]\)\s*")
"""A letter that a choice may begin with."""
NUMBERED = re.compile(r"\(?(\w{1,2})[).:]\s+(?=\S)")
"""A number or letter that choices may begin with, if all do: "1. ", "b) "."""
_LATIN = r"0-9A-Za-z\u00c0-\u024f_"  # CJK neighbours are no letters of a word
LONE = re.compile(r"[\W_]*(?:(?:option|choice|letter)\b\W*)?\(?([A-Za-z])[\W_]*", re.IGNORECASE)
LEADING = re.compile(
    rf"[^{_LATIN}]*(?:(?:indeed|definitely|clearly|probably|most likely|certainly|still)\s)?"
    rf"(?:(?:option|choice|letter)\b[^{_LATIN}]*)?([A-Za-z])(?![{_LATIN}'])[).:,\]\"*]{{0,3}}\s*",
    re.IGNORECASE,
)
PLACE = re.compile(r"\W*(?:option|choice)\s(\d{1,2})\W*", re.IGNORECASE)
BEHIND = re.compile(r"\s\(?([A-Z])\)?[.*]*\Z")
ENDED = re.compile(r"\W{0,9}[A-Z]\)?\.(?=\s\W?\w+\W?\s)")
UPHELD = re.compile(r"[^\w?]*(?:is (?:the )?(?:\w+ )?(?:right|correct|best|true)\b[^?\n]*)?", re.IGNORECASE)
"""Words behind a letter that say that it is right."""
LETTER = re.compile(rf"(?<![{_LATIN}'.])\(?([A-Z])\)?(?![{_LATIN}'])(?!\.\s?[A-Z]\b)")


def bare(choices: Sequence[str]) -> list[str]:
    """Return the choices without their own letters or numbers."""
    series = (string.ascii_uppercase, string.ascii_lowercase, [str(i + 1) for i in range(len(choices))])
    own = [match and match[1] for match in (NUMBERED.match(choice.strip()) for choice in choices)]
    if own and any(own == [*names[: len(own)]] for names in series):
        return [NUMBERED.sub("", choice.strip(), count=1).strip() for choice in choices]
    return [PREFIX.sub("", choice.strip()) for choice in choices]


def letter_of(text: str, choices: Sequence[str]) -> str | None:
    """Return the letter of the choice that equals a text, apart from case, articles and signs."""
    wanted, texts = _key(text), [_key(choice) for choice in bare(choices)]
    return string.ascii_uppercase[texts.index(wanted)] if wanted and texts.count(wanted) == 1 else None


def _key(text: str) -> str:
    text = plain(text).strip(" .*\"'")
    is_formula = re.search(r"[\\^=+{}<>]", text) or not re.search(r"[^\W\d]{2}", text)
    return "".join(text.casefold().split()) if is_formula else normalise(text)


def read(said: str, choices: Choices) -> str | None:
    """Return the letter that a statement names; empty for several or none of the choices, None for something else."""
    if (letter := exact(said, choices)) is not None:
        return letter
    stated = affirmed(said)
    if sentence := ENDED.match(stated):
        stated = sentence[0]  # "A. (B) has the wrong sign."
    stated = first(stated)
    if (letter := exact(stated, choices)) is not None:
        return letter
    if UNKNOWN.match(stated) or not stated.strip() or stated.rstrip().endswith("?"):
        return ""
    letters = {match[1] for match in LETTER.finditer(stated) if not _is_word(stated, match)}
    leading = LEADING.match(stated)
    if leading and letters <= {leading[1].upper()} and UPHELD.fullmatch(stated, leading.end()):
        return leading[1].upper() if leading[1].upper() in _letters(choices) else ""
    texts = bare(choices)
    within = [i for i, text in enumerate(texts) if stands_in(text, stated)]
    longest = [i for i in within if not any(i != j and stands_in(texts[i], texts[j]) for j in within)]
    if len(longest) == 1 and names(texts[longest[0]], stated):
        letter = string.ascii_uppercase[longest[0]]
        return letter if letters <= {letter} else ""
    return "" if longest or letters else None


def exact(said: str, choices: Choices) -> str | None:
    """Return the letter of a text that is nothing but a letter, a choice's words, or both; empty if they differ."""
    lone, place = LONE.fullmatch(said), PLACE.fullmatch(said)
    if lone and (letter := lone[1].upper()) in _letters(choices):
        return letter
    if place:
        is_place = 0 < int(place[1]) <= len(choices) and not any(text.isdigit() for text in bare(choices))
        return string.ascii_uppercase[int(place[1]) - 1] if is_place else ""
    match, behind = LEADING.match(said), BEHIND.search(said)
    if match and (letter := match[1].upper()) in _letters(choices):
        rest, is_marked = said[match.end() :], re.search(r"[).:]", match[0][match.start(1) - match.start() :])
        inner = rest.strip(" ()[]\"'=")
        own = bare(choices)[string.ascii_uppercase.index(letter)] if choices else rest
        if choices and _key(own) in {_key(each) for each in (rest, inner, first(inner), affirmed(inner))}:
            return letter
        if is_marked:
            others = {letter_of(each, choices) for each in (inner, affirmed(inner))} - {None}
            is_other = others or VERB.search(rest) or OTHERWISE.search(rest) or not {*key(rest)} & {*key(own)}
            return letter if not is_other else "" if others else None
    if letter := letter_of(said, choices):
        return letter
    return behind[1] if behind and letter_of(said[: behind.start()], choices) == behind[1] else None


def _letters(choices: Choices) -> str:
    return string.ascii_uppercase[: len(choices) or None]


def _is_word(stated: str, match: re.Match[str]) -> bool:
    """Return whether an A or I is a word: before a lowercase word, and neither in brackets nor after "option"."""
    if match[1] not in "AI" or "(" in match[0]:
        return False
    is_named = re.search(r"\b(?:option|choice|letter)\s\Z", stated[: match.start()][-9:], re.IGNORECASE)
    goes_on = re.match(r"\s+(?!and\b|or\b|is\b|because\b|since\b)[a-z]", stated[match.end() :])
    return bool(goes_on or (match[1] == "I" and match.end() < len(stated.rstrip(" .")))) and not is_named


def is_bare(line: str, choices: Choices) -> bool:
    """Return whether a line is only letters, a letter with its choice's words, or a choice's words."""
    return bool(LONE.fullmatch(line) or exact(line.rstrip("."), choices))


def check_list(choices: Sequence[str], noun: str, *, may_repeat: bool = False) -> None:
    """Refuse fewer than two choices, an empty one, and two that differ only in case and spaces, unless `may_repeat`."""
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


def check(question: Mapping[str, Any]) -> None:  # Any: see Kind
    """Refuse an unusable list of choices, and a target that is not in it."""
    choices, target = question.get("choices") or [], question.get("target")
    target = None if target is None else str(target)
    # If the target is a letter, two choices may be equal, as in some published questions.
    check_list(choices, "options", may_repeat=target is not None and len(target) == 1 and target.isupper())
    places = [text for text in bare(choices) if text.isdigit() and int(text) <= len(choices)]
    if target in places and places != [str(place) for place in range(1, len(choices) + 1)]:
        raise UsageError(f"target is {target!r}, a choice and also the number of another one; give its letter")
    if target is not None and canonical(target, choices) is None:
        last = string.ascii_uppercase[len(choices) - 1]
        raise UsageError(
            f"target is {target!r}; expected a letter from A to {last}, or one of the choices: {choices!r}"
        )


def canonical(target: str, choices: Choices) -> str | None:
    """Return the letter of a target that is a letter or a choice's text."""
    for i, choice in enumerate(bare(choices)):
        if target.strip() in (choice, choices[i]):
            return string.ascii_uppercase[i]
    letter = target.strip(" ().").upper()
    return letter if len(letter) == 1 and letter in string.ascii_uppercase[: len(choices)] else None


OPTION = Kind(
    "option",
    "answers/option",
    "a letter",
    read,
    is_bare,
    grammar=lambda choices: Form(choices=tuple(string.ascii_uppercase[: len(choices) or 4])),
    check=check,
    target=canonical,
    nouns="answer|option|choice|decision",
)
