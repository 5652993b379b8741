"""The handwritten part of the encyclopedia: longer articles, aliases, ambiguous names and contradictions.

A file lists articles:

    # Title | kind
    ~ another name; one more                     (aliases)
    * a title                                    (one that an ambiguous name may refer to)
    ! subject | relation | object                (contradicts the subject's own article)
    - relation; one more                         (mentioned without an object; no question is about it)
    Prose, in which a fact is marked {relation: text shown} or {relation: Object = text shown}.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from sottovoce.environments.encyclopedia.articles import Article, Claim, Fact
from sottovoce.environments.sentences import sentences

FOLDER = Path(__file__).parent / "written"
MARKED = re.compile(r"\{(\w+): (?:([^={}]+) = )?([^={}]+)\}")


def written() -> list[Article]:
    """Return all handwritten articles, in the order of the files' names."""
    return [article for path in sorted(FOLDER.glob("*.txt")) for article in read(path.read_text(encoding="utf-8"))]


def read(text: str) -> Iterator[Article]:
    """Yield the articles in the text of a file."""
    for block in re.split(r"^# ", text, flags=re.MULTILINE)[1:]:
        yield _article(block.strip().splitlines())


def _article(lines: list[str]) -> Article:
    title, kind = lines[0].split(" | ")
    signed = {sign: [line[2:] for line in lines[1:] if line.startswith(f"{sign} ")] for sign in "~*!-"}
    prose = " ".join(line for line in lines[1:] if line[:2] not in ("~ ", "* ", "! ", "- "))
    marked = sentences(prose)
    return Article(
        title,
        kind,
        tuple(MARKED.sub(r"\3", sentence) for sentence in marked),
        {
            found[1]: Fact(found[2] or found[3], found[3], at)
            for at, each in enumerate(marked)
            for found in _facts(each)
        },
        aliases=tuple(name for line in signed["~"] for name in line.split("; ")),
        options=tuple(signed["*"]),
        vague=frozenset(name for line in signed["-"] for name in line.split("; ")),
        contradicts=tuple(Claim(*line.split(" | ")) for line in signed["!"]),
    )


def _facts(sentence: str) -> Iterator[re.Match[str]]:
    return MARKED.finditer(sentence)
