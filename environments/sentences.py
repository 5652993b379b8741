"""Where sentences end, and which lines of an article hold any."""

from __future__ import annotations

import re

ABBREVIATED = re.compile(r"(?:\b(?:Dr|Mr|Mrs|Prof|St|Mt|No|Co|ca|cf|c|vol|e\.g|i\.e)|\b[^\W\d_a-z])\.\Z")
"""Before a space it ends no sentence."""
BETWEEN = re.compile(r"(?<=[.!?])[\"'\u201d)]*\s+(?=[\"'\u201c(]*(\w))")
"""Before a letter or a figure; a small letter begins no sentence."""
HEADING = re.compile(r"=+.*=+")
"""A section's, in an article as plain text."""


def paragraphs(text: str) -> str:
    r"""Return the lines of an article that are paragraphs or list items: more than two words, and no heading.

    >>> paragraphs("It has a mill.\n\n== Later years ==\nSee also:\nThe mill burnt.")
    'It has a mill.\nThe mill burnt.'
    """
    lines = [line.strip() for line in text.splitlines()]
    return "\n".join(line for line in lines if len(line.split()) > 2 and not HEADING.fullmatch(line))


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
        if not gap[1].islower() and not ABBREVIATED.search(line[: gap.start()].rstrip("\"'\u201d)")):
            found.append("")
        at = gap.end()
    found[-1] += line[at:]
    return [sentence.strip() for sentence in found]
