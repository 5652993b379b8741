"""The rules of the talk after a harvest: who speaks, who speaks next, when it is over, what was agreed on.

A report opens it and counts as its first message. An utterance names who is to speak next, and may close the talk;
it is written as three lines, of which the others hear the first.

    Say: Let us all stay at 10 tons.
    Done: no
    Next: Kate
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

from sottovoce.environments.govsim.harvest import MARKED, read_tons

MESSAGES = 10
"""The most of one talk, its report among them."""
LABEL = re.compile(r"^[\s>*_#-]{0,8}(?P<label>say|done|next)\b[\s*_]{0,4}:[ \t*_]{0,4}", re.IGNORECASE | re.MULTILINE)
"""Where a line with one of the labels begins; models like to set them in bold."""
YES = re.compile(r"\W{0,8}yes\b(?!\s?/)", re.IGNORECASE)
"""And no "yes/no", as a form would have it."""
NOTHING = re.compile(r"\banswer\b[\s*_`\"']{0,8}[:=]\W{0,5}(?:n\s?/\s?a\b|none\b|no\b)", re.IGNORECASE)


class Utterance(NamedTuple):
    """What one reply says."""

    text: str
    """What the others hear; empty where the reply holds nothing else than labels."""
    span: tuple[int, int]
    """Where that stands in the reply, in characters."""
    done: bool
    """Whether the talk is over for this speaker, and so for all."""
    following: str | None
    """Who is named to speak next; None where that is nobody who is there."""


def read_utterance(reply: str, there: Sequence[str]) -> Utterance:
    r"""What a reply says to those who are there.

    A line without a label goes on with what stands before it. Without "Say:" all that stands before the first other
    label is said. Only a plain "yes" closes the talk; of several names in the last line the first counts.

    >>> read_utterance("Say: Ten each?\nDone: no\nNext: Kate", ["John", "Kate"])
    Utterance(text='Ten each?', span=(5, 14), done=False, following='Kate')
    """
    fields = _fields(reply)
    said = fields.get("say") or _before_labels(reply)
    text = reply[slice(*said)]
    done, following = (reply[slice(*fields.get(label, (0, 0)))] for label in ("done", "next"))
    return Utterance(text, said, YES.match(done) is not None, _named(following, there))


def next_speaker(
    there: Sequence[str], speakers: Sequence[str], last: Utterance | None, most: int = MESSAGES
) -> str | None:
    """Who speaks after those who spoke, of whom the last said `last`; None where the talk is over.

    It has `most` messages with its report. The first of all begins. Who is not named by the last speaker comes in
    order: models name people who are not there.
    """
    if last is None:
        return there[0]
    if last.done or len(speakers) + 1 >= most:
        return None
    return last.following or there[(there.index(speakers[-1]) + 1) % len(there)]


def read_limit(reply: str) -> int | None:
    """Tons for each that a talk agreed on, as "Answer: 10 tons"; None for "Answer: N/A", or where none can be read.

    The first of the two counts.
    """
    nothing, limit = NOTHING.search(reply), MARKED.search(reply)
    if nothing is not None and (limit is None or nothing.start() <= limit.start()):
        return None
    return read_tons(reply)


def _fields(reply: str) -> dict[str, tuple[int, int]]:
    """Where each label's text stands, up to the next label; of a label that comes twice the first."""
    marks = [*LABEL.finditer(reply)]
    found: dict[str, tuple[int, int]] = {}
    for mark, following in zip_longest(marks, marks[1:]):
        end = following.start() if following else len(reply)
        found.setdefault(mark["label"].casefold(), _stripped(reply, mark.end(), end))
    return found


def _before_labels(reply: str) -> tuple[int, int]:
    first = LABEL.search(reply)
    return _stripped(reply, 0, first.start() if first else len(reply))


def _stripped(reply: str, start: int, end: int) -> tuple[int, int]:
    """A span without the white space around it."""
    text = reply[start:end]
    begin = start + len(text) - len(text.lstrip())
    return begin, max(begin, start + len(text.rstrip()))


def _named(text: str, there: Sequence[str]) -> str | None:
    places = [(mark.start(), name) for name in there if (mark := re.search(rf"\b{re.escape(name)}\b", text, re.I))]
    return min(places)[1] if places else None
