"""One of several choices, by its letter; at least the first four are understood."""

import re
import string

from sottovoce.form import Form
from sottovoce.prompts.kinds.kind import Choices, Kind
from sottovoce.prompts.kinds.marks import PREFIX, UNKNOWN, boxed, normalise, stated


def read(text: str, choices: Choices) -> str | None:
    """The last "(A)", else a stated letter, else the choice whose text was boxed, else the last stand-alone letter."""
    known = f"[A-{_letters(choices)[-1]}]"
    text = text.replace("(X)", "")  # the form's own example in the prompts of SDE
    if bracketed := re.findall(rf"\(({known})\)", text):
        return str(bracketed[-1])
    said, box = stated(text), boxed(text)
    if named := _choice_of(said and said.strip().rstrip("."), choices):  # also "None of these"
        return named
    if UNKNOWN.match(said or ""):
        return None
    if letter := re.match(rf"\W*({known})\b", said or "") or re.fullmatch(rf"\s*({known})\s*", box or ""):
        return letter[1]
    alone = re.findall(rf"(?<![\w'])({known})(?![\w'])", text)
    # A capital "A" that begins a sentence is an article far more often than an answer.
    alone = [a for a in alone if a != "A" or re.search(r"(?<![\w'])A(?!\s+[a-z])(?![\w'])", text)]
    return _choice_of(box, choices) or (alone[-1] if alone else None)


def read_value(given: str, choices: Choices) -> str | None:
    """A letter in any case, or a choice's text, or what a reply would be read as."""
    letter = re.fullmatch(r"\W*([A-Za-z])\W*", given)
    if letter and letter[1].upper() in _letters(choices):
        return letter[1].upper()
    return _choice_of(given.rstrip("."), choices) or read(given, choices)


def _letters(choices: Choices) -> str:
    return string.ascii_uppercase[: max(len(choices), 4)]


def _choice_of(text: str | None, choices: Choices) -> str | None:
    plain = [] if text is None else [normalise(PREFIX.sub("", choice)) for choice in choices]
    given = normalise(text or "")
    return string.ascii_uppercase[plain.index(given)] if given in plain else None


def grammar(choices: Choices) -> Form:
    """The letters of the choices."""
    return Form(choices=tuple(_letters(choices)[: len(choices) or None]))


OPTION = Kind("option", "answers/option", "a letter", read, read_value, grammar=grammar)
