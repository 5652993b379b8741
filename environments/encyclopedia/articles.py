"""Articles and the facts that they tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Fact(NamedTuple):
    """What an article tells in one relation."""

    object: str
    """The title of an article, or a value."""
    shown: str
    """As it stands in the sentence: the object, or another name of it."""
    at: int
    """The sentence, 0-based."""


class Claim(NamedTuple):
    """What an article says of another one's subject, against what stands there."""

    subject: str
    relation: str
    object: str


@dataclass(frozen=True)
class Article:
    """One page."""

    title: str
    kind: str
    """Of `relations.KINDS`, or "name" where it is ambiguous, or "thing"."""
    sentences: tuple[str, ...]
    facts: Mapping[str, Fact] = field(default_factory=dict)
    """By relation."""
    untold: Mapping[str, str] = field(default_factory=dict)
    """What is so and stands nowhere, by relation."""
    aliases: tuple[str, ...] = ()
    """Names under which it is found too."""
    options: tuple[str, ...] = ()
    """Titles that an ambiguous name may mean; such a page has no facts."""
    vague: frozenset[str] = frozenset()
    """Relations that it speaks of without telling an object: that there is none, or that it is disputed."""
    contradicts: tuple[Claim, ...] = ()

    def silent(self, relation: str) -> bool:
        """Whether it says nothing of a relation."""
        return relation not in self.facts and relation not in self.vague

    @property
    def text(self) -> str:
        """All of it."""
        return " ".join(self.sentences)
