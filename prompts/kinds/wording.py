"""Search for labels in texts: with any signs between their words, in any verb form, without denied ones."""

import re

from sottovoce.prompts.kinds.kind import Choices

DENIED = re.compile(
    r"(?:\bnot|\bno|n't|\bneither|\bnor|\brather than|\binstead of)\s+(?:(?!but\b)\w+\s+){0,2}\Z", re.IGNORECASE
)


def is_verb(label: str) -> bool:
    """Return whether a label is a verb such as "supports"."""
    return bool(re.match(r"(?:support|refute|contradict)s\Z", label, re.IGNORECASE))


def simple(label: str) -> str:
    """Return a label's words in lowercase."""
    return re.sub(r"[\W_]+", " ", label.casefold()).strip()


def named(said: str, choices: Choices, *, at_start: bool = False) -> list[str]:
    """Return the labels in a text in order, without denied ones."""
    words = {simple(choice): choice for choice in choices}
    order = sorted(words, key=len, reverse=True)
    each = "|".join(f"({forms(word)})" for word in order)
    pattern = re.compile(rf"(?<![^\W_])(?:{each})(?![^\W_])", re.IGNORECASE)
    begin = len(said) - len(said.lstrip("[(*_\"' "))
    found = [pattern.match(said, begin)] if at_start else [*pattern.finditer(said)]
    given = [one for one in found if one and not DENIED.search(said[max(0, one.start() - 40) : one.start()])]
    return [words[order[(one.lastindex or 1) - 1]] for one in given]


def forms(word: str) -> str:
    """Return a pattern of a label with any signs between its words, and other forms: "supported", "information"."""
    form = re.sub(r"\\?\s", r"[\\W_]{1,3}", re.escape(word))
    if is_verb(word):
        return form[:-1] + "(?:s|d|ed)"
    return form + r"(?:rmation)?" if word.endswith("info") else form
