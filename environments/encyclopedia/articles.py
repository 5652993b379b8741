"""Articles and the facts that they tell, and how sentences are told apart."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

ABBREVIATED = re.compile(r"(?:\b(?:Dr|Mr|Mrs|St|No|Co|ca|c|vol)|\b[A-Z])\.\Z")
"""Before a space it ends no sentence."""
BETWEEN = re.compile(r"(?<=[.!?])[\"'\u201d)]*\s+(?=[\"'\u201c(]*[A-Z0-9\u00c0-\u00de\u0100-\u017f])")


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
    contradicts: tuple[Claim, ...] = ()

    @property
    def text(self) -> str:
        """All of it."""
        return " ".join(self.sentences)


def sentences(text: str) -> tuple[str, ...]:
    """A text in sentences: by its lines, then behind full stops that end no abbreviation.

    >>> sentences("Dr. J. Orme came in. St. Ives slept.")
    ('Dr. J. Orme came in.', 'St. Ives slept.')
    """
    found = [sentence for line in text.splitlines() for sentence in _of_line(line.strip())]
    return tuple(filter(None, found))


def _of_line(line: str) -> list[str]:
    found = [""]
    at = 0
    for gap in BETWEEN.finditer(line):
        found[-1] += line[at : gap.end()]
        if not ABBREVIATED.search(line[: gap.start()].rstrip("\"'\u201d)")):
            found.append("")
        at = gap.end()
    found[-1] += line[at:]
    return [sentence.strip() for sentence in found]
