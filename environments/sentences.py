"""Splitting of texts into sentences, and of articles into paragraphs."""

from __future__ import annotations

import re

ABBREVIATED = re.compile(r"(?:\b(?:Dr|Mr|Mrs|Prof|St|Mt|No|Co|ca|cf|c|vol|e\.g|i\.e)|\b[^\W\d_a-z])\.\Z")
"""An abbreviation or initial whose dot does not end a sentence."""
BETWEEN = re.compile(r"(?<=[.!?])[\"'\u201d)]*\s+(?=[\"'\u201c(]*(\w))")
"""White space between two sentences; the next one starts with a letter or digit, but not with a lowercase letter."""
HEADING = re.compile(r"=+.*=+")
"""Heading of a section in the plain text of an article."""


def paragraphs(text: str) -> str:
    r"""Return the paragraphs and list items of an article: lines with more than two words that are not headings.

    >>> paragraphs("It has a mill.\n\n== Later years ==\nSee also:\nThe mill burnt.")
    'It has a mill.\nThe mill burnt.'
    """
    lines = [line.strip() for line in text.splitlines()]
    return "\n".join(line for line in lines if len(line.split()) > 2 and not HEADING.fullmatch(line))


def sentences(text: str) -> tuple[str, ...]:
    """Split a text into sentences: by lines, then at full stops that do not end an abbreviation.

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
        if not gap[1].islower() and not ABBREVIATED.search(line[: gap.start()].rstrip("\"'\u201d)")):
            found.append("")
        at = gap.end()
    found[-1] += line[at:]
    return [sentence.strip() for sentence in found]
