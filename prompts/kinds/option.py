"""One of several choices, by its letter; at least the first four are understood."""

import re
import string
from collections.abc import Mapping
from typing import Any

from sottovoce.errors import UsageError
from sottovoce.form import Form
from sottovoce.prompts.kinds import choices as known
from sottovoce.prompts.kinds import number
from sottovoce.prompts.kinds.kind import Choices, Kind
from sottovoce.prompts.kinds.marks import normalise, sources
from sottovoce.prompts.kinds.nothing import OPEN, UNKNOWN
from sottovoce.prompts.kinds.prose import plain
from sottovoce.prompts.kinds.sentences import CLAUSE, affirmed, claims, first, without_reason

NOUNS = "answer|option|choice"
JOINED = re.compile(r"[\s(]*(?-i:[A-Z])\W{0,3}\s?(?:or|and|/)\s*\(?(?-i:[A-Z])\b", re.IGNORECASE)
"""Two letters, and none chosen."""
_LETTERS = r"(?:\s(?:both|option|be|choose)\b)?\s?(?:\([A-Z]\)|\b[A-Z]\b)(?:\s?(?:,|and|or|nor)\s?\(?[A-Z]\b\)?){0,9}"
RULED_OUT = re.compile(
    rf"(?:\bnot|n't|\bneither|\beliminated?|\bexcluded?|\brul(?:e|ed|ing) out|\brejected?|\bover|\bthan|\binstead of"
    rf"|\bconsider(?:ing)?|\babout|\bcheck(?:ing)?|\bwhether)(?:\s(?:it is|is))?{_LETTERS}"
)
"""Letters that are named to be left aside."""
WRONG = re.compile(
    rf"{_LETTERS}(?:\s\w+){{0,3}}?\s(?:is|are|was|were|can|could|does|do|seems?|looks?)(?:\s?n[o']t\b|nnot\b"
    r"|\s(?:wrong|incorrect|false|impossible|out|excluded|eliminated)\b)"
)


def read(text: str, choices: Choices) -> str | None:
    """What is marked as the answer (see `sources`), else the last letter or choice that is claimed."""
    body = plain(text)
    for source in sources(body, NOUNS):
        if (found := _of(source, choices)) is not None:
            return found or None
    return _small(body, choices) or _claimed(body, choices) or _by_value(text, choices)


def read_value(given: str, choices: Choices) -> str | None:
    """A letter in any case, or a choice's text, or what a reply would be read as."""
    return _of(plain(given), choices) or read(given, choices)


def _of(source: str, choices: Choices) -> str | None:
    """The letter that a mark names; empty where it says that there is none, None where it speaks of something else."""
    if lone := re.fullmatch(rf"\W{{0,9}}({_range(choices)})\W{{0,9}}", source):
        return lone[1]
    for said in (source, first(source), affirmed(without_reason(source, CLAUSE)), first(affirmed(source))):
        if named := _choice_of(said, choices):  # also "None of these", "Cannot be determined"
            return named
    said = affirmed(without_reason(source, CLAUSE))
    if not said and not re.search(rf"\b{_range(choices)}\b", source):  # "not a valid option"
        return None
    if UNKNOWN.match(said) or not said or JOINED.match(re.sub(r"^\W*either\b", "", said)):
        return ""
    if letter := _led(said, choices):
        return letter
    if place := known.number_named(said, choices):
        return string.ascii_uppercase[place - 1]
    letters = set(re.findall(rf"\(({_range(choices)})\)", said))
    return letters.pop() if len(letters) == 1 else _contained(first(said), choices)


def _led(said: str, choices: Choices) -> str | None:
    """The letter that a phrase begins with: "B", "(b) blue", "option C"; no article."""
    found = re.match(
        r"[\W_]*(?:(?:option|choice|letter|answer)\b\W*)?([A-Za-z])(?![\w'])([).:]?)(\s+[a-z])?", said, re.IGNORECASE
    )
    if not found or found[1].upper() not in _letters(choices):
        return None
    is_word = found[3] and not found[2] and (found[1] in "AI" or found[1].islower())
    return None if is_word else found[1].upper()


def _small(body: str, choices: Choices) -> str | None:
    """A reply that is nothing but a letter of any case, alone or before its choice."""
    found = re.fullmatch(r"\W*(?:option\s)?\W?([a-zA-Z])\W*|\W*(?:option\s)?\(?([a-z])[).:]+\s[^\n]{1,200}\s*", body)
    letter = (found[1] or found[2]).upper() if found else ""
    return letter if letter and letter in _letters(choices) else None


def _claimed(body: str, choices: Choices) -> str | None:
    said = WRONG.sub(" ", RULED_OUT.sub(" ", "\n".join(claims(_unlisted(body, choices)))))
    said = "\n".join(line for line in said.split("\n") if not OPEN.search(line))
    letters = re.findall(rf"\(({_range(choices)})\)", said)
    if letters:
        last = str(letters[-1])
        return None if re.search(rf"\({last}\)\s?(?:or|/)|\)\s(?:or|and)\s\({last}\)", said) else last
    if place := next((place for each in said.split("\n") if (place := known.number_named(each, choices))), None):
        return string.ascii_uppercase[place - 1]
    alone = [found for found in re.finditer(rf"(?<![\w'])({_range(choices)})(?![\w'])", said)]
    # A capital "A" before a small word is an article far more often than an answer, and "I" is who speaks.
    alone = [found for found in alone if found[1] not in "AI" or not re.match(r"\s+[a-z]", said[found.end() :][:9])]
    return alone[-1][1] if alone else _in_words(said, choices)


def _in_words(said: str, choices: Choices) -> str | None:
    """The one choice that the last claim names which names any."""
    for sentence in reversed(said.split("\n")[-3:]):
        words = re.sub(r"\b(?:not|n't|than|neither)\s(?:\w+\s)?\w+", " ", sentence)
        if _contained(sentence, choices) != _contained(words, choices):
            continue
        if found := _contained(words, choices):
            return found
        if sum(_names(words, choice) for choice in known.bare(choices)) > 1:
            return None
    return None


def _by_value(text: str, choices: Choices) -> str | None:
    """Where all choices are numbers, the one whose value a text gives: "5 + 6 = 11"."""
    values = [number.read_value(choice, ()) for choice in known.bare(choices)]
    found = number.read(text, ()) if values and all(values) else None
    return string.ascii_uppercase[values.index(found)] if found is not None and values.count(found) == 1 else None


def _unlisted(body: str, choices: Choices) -> str:
    """The text without the choices said again, one after another."""
    letters = "".join(re.findall(r"\(([A-Z])\)", body))
    if len(choices) > 1 and letters.startswith(string.ascii_uppercase[: len(choices)]):
        last = f"({string.ascii_uppercase[len(choices) - 1]})"
        return body[body.index(last) + len(last) :].removeprefix(" " + known.bare(choices)[-1])
    return body


def _range(choices: Choices) -> str:
    return f"[A-{_letters(choices)[-1]}]"


def _letters(choices: Choices) -> str:
    return string.ascii_uppercase[: max(len(choices), 4)]


def _choice_of(text: str, choices: Choices) -> str | None:
    """The letter of the choice that a text is, but for case, articles and signs."""
    given, each = normalise(text), [normalise(choice) for choice in known.bare(choices)]
    return string.ascii_uppercase[each.index(given)] if given and each.count(given) == 1 else None


def _contained(said: str, choices: Choices) -> str | None:
    """The letter of the only choice whose words a text holds; of one within another the longer."""
    found = [i for i, choice in enumerate(known.bare(choices)) if _names(said, choice)]
    longest = max((known.bare(choices)[i] for i in found), key=len, default="")
    found = [i for i in found if not _names(longest, known.bare(choices)[i]) or known.bare(choices)[i] == longest]
    return string.ascii_uppercase[found[0]] if len(found) == 1 else None


def _names(said: str, choice: str) -> bool:
    words = normalise(choice)
    return bool(words) and f" {words} " in f" {normalise(said)} "


def check(question: Mapping[str, Any]) -> None:  # Any: see Kind
    """Refuse choices that nobody could choose from, and a target that is none of them."""
    choices, target = question.get("choices") or [], known.target_of(question)
    known.check(choices, "options")
    if target is not None and canonical(target, choices) is None:
        last = string.ascii_uppercase[len(choices) - 1]
        raise UsageError(
            f"target is {target!r}; expected a letter from A to {last}, or one of the choices: {choices!r}"
        )


def canonical(target: str, choices: Choices) -> str | None:
    """The letter of a target that is a letter or a choice's text."""
    for i, choice in enumerate(known.bare(choices)):
        if target.strip() in (choice, choices[i]):
            return string.ascii_uppercase[i]
    letter = target.strip(" ().").upper()
    return letter if len(letter) == 1 and letter in string.ascii_uppercase[: len(choices)] else None


def grammar(choices: Choices) -> Form:
    """The letters of the choices."""
    return Form(choices=tuple(_letters(choices)[: len(choices) or None]))


OPTION = Kind("option", "answers/option", "a letter", read, read_value, grammar=grammar, check=check, target=canonical)
