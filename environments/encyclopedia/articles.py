"""Articles and their facts, and the handwritten articles: longer, with aliases, ambiguous names and contradictions.

A file in `written/` lists articles:

    # Title | kind
    ~ another name; one more                     (aliases)
    * a title                                    (one that an ambiguous name may refer to)
    ! subject | relation | object                (contradicts the subject's own article)
    - relation; one more                         (mentioned without an object; no question is about it)
    Prose, in which a fact is marked {relation: text shown} or {relation: Object = text shown}.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from sottovoce.environments.pages import sentences

WRITTEN = Path(__file__).parent / "written"
MARKED = re.compile(r"\{(\w+): (?:([^={}]+) = )?([^={}]+)\}")


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
    """One of `generate.KINDS`, "name" for an ambiguous title, or "thing"."""
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


def handwritten() -> list[Article]:
    """Return all handwritten articles, in the order of the files' names."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(WRITTEN.glob("*.txt"))]
    blocks = [block for text in texts for block in re.split(r"^# ", text, flags=re.MULTILINE)[1:]]
    return [_article(block.strip().splitlines()) for block in blocks]


def _article(lines: list[str]) -> Article:
    title, kind = lines[0].split(" | ")
    signed = {sign: [line[2:] for line in lines[1:] if line.startswith(f"{sign} ")] for sign in "~*!-"}
    marked = sentences(" ".join(line for line in lines[1:] if line[:2] not in ("~ ", "* ", "! ", "- ")))
    facts = [(match, at) for at, sentence in enumerate(marked) for match in MARKED.finditer(sentence)]
    return Article(
        title,
        kind,
        tuple(MARKED.sub(r"\3", sentence) for sentence in marked),
        {match[1]: Fact(match[2] or match[3], match[3], at) for match, at in facts},
        aliases=tuple(name for line in signed["~"] for name in line.split("; ")),
        options=tuple(signed["*"]),
        vague=frozenset(name for line in signed["-"] for name in line.split("; ")),
        contradicts=tuple(Claim(*line.split(" | ")) for line in signed["!"]),
    )
