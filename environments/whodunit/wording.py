"""Texts of WhoDunit: clauses about characters and their attributes, and the two vocabularies.

A clause is a verb and its complement, so that each attribute is worded once: "wears a brown hat" in a description,
"does not wear a brown hat" in an answer, "Does character 3 wear a brown hat?" in a question.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

CLAUSES = {
    "hat": ("wear", "a {} hat"),
    "mood": ("be", "{}"),
    "shirt_color": ("wear", "a {} shirt"),
    "hobby": ("enjoy", "{}"),
    "pants": ("wear", "{} pants"),
    "pants_color": ("wear", "{} pants"),
    "eye_color": ("have", "{} eyes"),
    "eye_glasses": ("wear", "{} glasses"),
    "shirt": ("wear", "a {} shirt"),
    "shoe_color": ("wear", "{} shoes"),
    "hair": ("have", "{} hair"),
    "watch": ("wear", "a {} watch"),
    "socks": ("wear", "{} socks"),
    "jacket": ("wear", "a {} jacket"),
    "height": ("be", "{}"),
    "age": ("be", "{}"),
    "build": ("have", "a {} build"),
    "personality": ("be", "{}"),
    "interests": ("be", "interested in {}"),
    "occupation": ("be", "a {}"),
}
THIRD = {"be": "is", "have": "has"}
CLOTHES = (("pants", "pants_color", "{} pants"), ("shirt_color", "shirt", "a {} shirt"))
"""Clothes at the end of a description, each as one phrase: attributes of the adjectives in order, and the noun."""


@dataclass(frozen=True)
class Wording:
    """The vocabulary for the characters, for the one to find, and for the final act."""

    person: str
    winner: str
    award: str
    """Verb as in "you award the character"."""
    awards: str


WORDINGS = {
    "positive": Wording("character", "winner", "award", "awards"),
    "negative": Wording("suspect", "culprit", "accuse", "accuses"),
}
Worded = Literal["positive", "negative"]


def described(person: Mapping[str, str]) -> str:
    """Return the description of a character, with attributes in alphabetical order, pants and shirt last.

    >>> described({"shirt": "tee", "shirt_color": "pink", "hat": "brown", "age": "old"})
    'is old, wears a brown hat, wears a pink tee shirt'
    """
    dressed = {name for first, second, _ in CLOTHES for name in (first, second)}
    clauses = [clause(name, person[name]) for name in sorted(person) if name not in dressed]
    worn = [
        noun.format(" ".join(person[name] for name in (first, second) if name in person))
        for first, second, noun in CLOTHES
        if first in person or second in person
    ]
    return ", ".join([*clauses, *([f"wears {' and '.join(worn)}"] if worn else [])])


def clause(attribute: str, value: str, *, truth: bool = True, many: bool = False) -> str:
    """Return a clause about one or many: "wears a brown hat", "does not wear a brown hat", "wear a brown hat"."""
    verb, rest = _clause(attribute, value)
    if many:
        return f"{'are' if verb == 'be' else verb} {rest}"
    if truth:
        return f"{THIRD.get(verb, verb + 's')} {rest}"
    return f"is not {rest}" if verb == "be" else f"does not {verb} {rest}"


def question(attribute: str, value: str, who: str) -> str:
    """Return a question: "does character 3 wear a brown hat?"."""
    verb, rest = _clause(attribute, value)
    return f"is {who} {rest}?" if verb == "be" else f"does {who} {verb} {rest}?"


def listed(names: Iterable[object]) -> str:
    """Join names as in a sentence.

    >>> listed([1, 3, 5])
    '1, 3 and 5'
    """
    *first, last = map(str, names)
    return f"{', '.join(first)} and {last}" if first else last


def fact(attribute: str, value: str, wording: Wording) -> str:
    """Return a fact about the character to find: "The winner wears a brown hat."."""
    return f"The {wording.winner} {clause(attribute, value)}."


def people(of: Sequence[Mapping[str, str]], wording: Wording) -> list[str]:
    """Return all descriptions, one line for each: "Character 1 is happy, ..."."""
    return [f"{wording.person.capitalize()} {number} {described(person)}." for number, person in enumerate(of, 1)]


def _clause(attribute: str, value: str) -> tuple[str, str]:
    """Return a verb and its complement; "a black hat" is the value "black" of a hat."""
    verb, rest = CLAUSES.get(attribute, ("have", f"{{}} as {attribute.replace('_', ' ')}"))
    before, _, noun = rest.partition("{}")
    value = re.sub(rf"^(?:{re.escape(before)}|(?:an?|the) )", "", value, flags=re.IGNORECASE) if before else value
    nouns = "|".join(re.escape(name) for name in {noun.strip(), attribute.replace("_", " "), attribute} if name)
    return verb, rest.format(re.sub(rf"(?<=\S)\s+(?:{nouns})$", "", value, flags=re.IGNORECASE))
