"""Where sentences end."""

from __future__ import annotations

import re

ABBREVIATED = re.compile(r"(?:\b(?:Dr|Mr|Mrs|St|No|Co|ca|c|vol)|\b[A-Z])\.\Z")
"""Before a space it ends no sentence."""
BETWEEN = re.compile(r"(?<=[.!?])[\"'\u201d)]*\s+(?=[\"'\u201c(]*[A-Z0-9\u00c0-\u00de\u0100-\u017f])")


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
