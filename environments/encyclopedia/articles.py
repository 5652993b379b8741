"""Articles and the facts in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Fact(NamedTuple):
    """The fact that an article states in one relation."""

    object: str
    """Title of an article, or a value."""
    shown: str
    """Text in the sentence: the object, or another name for it."""
    at: int
    """Index of the sentence, 0-based."""


class Claim(NamedTuple):
    """A statement in an article about another article's subject that contradicts the other article."""

    subject: str
    relation: str
    object: str


@dataclass(frozen=True)
class Article:
    """One page."""

    title: str
    kind: str
    """One of `relations.KINDS`, "name" for an ambiguous title, or "thing"."""
    sentences: tuple[str, ...]
    facts: Mapping[str, Fact] = field(default_factory=dict)
    """Facts by relation."""
    untold: Mapping[str, str] = field(default_factory=dict)
    """True objects that no article states, by relation."""
    aliases: tuple[str, ...] = ()
    """Other names under which it is found."""
    options: tuple[str, ...] = ()
    """Titles that an ambiguous name may refer to; such a page has no facts."""
    vague: frozenset[str] = frozenset()
    """Relations that it mentions without an object, because there is none or it is disputed."""
    contradicts: tuple[Claim, ...] = ()

    def silent(self, relation: str) -> bool:
        """Return whether it says nothing about a relation."""
        return relation not in self.facts and relation not in self.vague

    @property
    def text(self) -> str:
        """The complete text."""
        return " ".join(self.sentences)
