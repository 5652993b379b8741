"""Parsers of GovSim's replies, and the rules of the talk: the wish, the order of speakers, the end, the agreement.

The prompt asks for a wish in the form "Answer: 10 tons", after any reasoning. A report opens the talk and counts as its
first message. An utterance has three labels; it names the next speaker and may end the talk. The other agents hear only
the part under the first label. Text before it is private.

    Say: Let us all stay at 10 tons.
    Done: no
    Next: Kate
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from sottovoce.environments import trimmed

MARKED = re.compile(
    r"\banswer\b[\s*_`\"']{0,8}(?:is\b[\s*_]{0,8})?"
    r"(?:[:=](?:[^\d\n]{0,40}?|\W{0,10})|(?<=is )\W{0,5})"
    r"(?P<minus>[-\u2212])?(?P<tons>\d{1,3}(?:,\d{3})+(?!\d)|\d+)",
    re.IGNORECASE | re.ASCII,
)
AT_LINE = re.compile(r"(?:^|\n)[\s>*_#`-]{0,8}(?:final\s)?\Z", re.IGNORECASE)
"""End of a text after which a marker starts its line."""
WORDS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen".split()
SPELLED = re.compile(rf"\banswer\W{{1,8}}({'|'.join(sorted(WORDS, key=len, reverse=True))})\b", re.IGNORECASE)
BEFORE = 24  # characters checked before a marker
DIGITS = 9
"""Most digits of a number, enough for any lake; longer ones are cut, since Python limits the digits it parses."""
MESSAGES = 10
"""Most messages of one talk, including its report."""
LABELS = {
    "say": r"say|response",
    "done": r"done|conversation conclusion(?: by me)?",
    "next": r"next(?: speaker)?",
}
"""Our labels, and those of the authors' prompt."""
LABEL = re.compile(
    r"(?:^|(?<=\w[,;.] )(?=next\b))[\s>*_#`-]{0,8}(?:"
    + "|".join(rf"(?P<{name}>{of})" for name, of in LABELS.items())
    + r")"
    r"[\s*_]{0,4}:[ \t*_]{0,4}",
    re.IGNORECASE | re.MULTILINE,
)
"""Start of a line with one of the labels, which models often set in bold."""
YES = re.compile(r"\W{0,8}yes\b(?!\s?/)", re.IGNORECASE)
"""A "yes", but not the "yes/no" of a template."""
NOTHING = re.compile(
    r"\banswer\b[\s*_`\"']{0,8}(?:[:=]|is\b)\W{0,5}(?:n\s?/\s?a\b|none\b|no\b(?! more))", re.IGNORECASE
)
SUMMARY = re.compile(r"\A[^\n]{0,40}?\bsummary\b(?: (?:in|of)[^\n:.,]{0,30})?[\s*_]{0,4}:[\s*_]{0,4}", re.IGNORECASE)
"""The words before a summary that only announce it."""


def read_tons(text: str) -> int | None:
    r"""Return the first whole number after the last marker, in tons; None if there is none.

    A marker at the start of its line takes precedence. Emphasis, units, "about" and thousands separators are ignored.
    "10.5" and "10-12" give 10, and a negative number gives 0. A marker without a number, as in a repeated
    "Answer: N tons", is skipped.

    >>> read_tons("Half would be left.\n**Answer:** 10 tons"), read_tons("I would catch ten.")
    (10, None)
    """
    marker = last_marked(MARKED, text)
    if marker is None:
        words = SPELLED.findall(text)  # "Answer: five tons"
        return WORDS.index(words[-1].lower()) if words else None
    return 0 if marker["minus"] else int(marker["tons"].replace(",", "")[:DIGITS])


def tons_pattern(most: int) -> str:
    """Return the pattern of "N tons" for N from 0 to `most`."""
    return f"(?:{'|'.join(map(str, range(most + 1)))}) tons"


def last_marked(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Return the last match; matches at the start of a line take precedence."""
    return max(pattern.finditer(text), key=place, default=None)


def place(marker: re.Match[str]) -> tuple[bool, int]:
    """Return a sort key: whether a marker starts its line, and its position."""
    start = marker.start()
    return AT_LINE.search(marker.string, max(0, start - BEFORE), start) is not None, start


class Utterance(NamedTuple):
    """The content of one reply."""

    text: str
    """Text that the others hear; empty if the reply has only labels."""
    span: tuple[int, int]
    """Start and end of the text in the reply, in characters."""
    done: bool
    """True if this speaker ends the talk, which ends it for all."""
    following: str | None
    """Named next speaker; None if no agent present is named."""


def read_utterance(reply: str, present: Sequence[str]) -> Utterance:
    r"""Parse a reply to the agents in `there`.

    The text said is between the first "Say:" and the first "Done:" after it, over any number of lines; then "Next:"
    follows. Without "Say:" it is the text before these labels. Only a plain "yes" ends the talk. If several names
    follow "Next:", the first counts.

    >>> read_utterance("Say: Ten each?\nDone: no\nNext: Kate", ["John", "Kate"])
    Utterance(text='Ten each?', span=(5, 14), done=False, following='Kate')
    """
    marks = [*LABEL.finditer(reply)]
    begin = next((mark.end() for mark in marks if mark.lastgroup == "say"), 0)
    done = _first(marks, "done", begin)
    following = _first(marks, "next", done.end() if done else begin)
    ends = [mark.start() for mark in (done, following, _first(marks, "say", begin)) if mark]
    said = trimmed(reply, begin, min((end for end in ends if end >= begin), default=len(reply)))
    closes = YES.match(_behind(reply, done, marks)) is not None
    return Utterance(reply[slice(*said)], said, closes, _named(_behind(reply, following, marks), present))


def next_speaker(
    present: Sequence[str], speakers: Sequence[str], last: Utterance | None, most: int = MESSAGES
) -> str | None:
    """Return the agent that speaks after `speakers`, the last of whom said `last`; None if the talk is over.

    A talk has `most` messages including its report. The first agent starts. If the last speaker names no agent
    present, the next one in order speaks: models sometimes name absent people.
    """
    if last is None:
        return present[0]
    if last.done or len(speakers) + 1 >= most:
        return None
    return last.following or present[(present.index(speakers[-1]) + 1) % len(present)]


def read_limit(reply: str) -> int | None:
    """Return the tons per agent agreed on, from "Answer: 10 tons"; None for "Answer: N/A", or if there is no number.

    If a reply has both, the last one counts.
    """
    nothing, limit = last_marked(NOTHING, reply), last_marked(MARKED, reply)
    if nothing is not None and (limit is None or place(nothing) >= place(limit)):
        return None
    return read_tons(reply)


def read_summary(reply: str) -> str:
    """Return a summary without the words that announce it: "Summary:", "Here is a summary in one sentence:"."""
    return SUMMARY.sub("", reply.strip()).strip()


def _first(marks: Sequence[re.Match[str]], name: str, behind: int) -> re.Match[str] | None:
    """Return the first mark with this label after a place, else the first of all."""
    own = [mark for mark in marks if mark.lastgroup == name]
    return next((mark for mark in own if mark.start() >= behind), own[0] if own else None)


def _behind(reply: str, mark: re.Match[str] | None, marks: Sequence[re.Match[str]]) -> str:
    """Return the text after a label, up to the next one."""
    if mark is None:
        return ""
    return reply[
        mark.end() : min(
            (other_mark.start() for other_mark in marks if other_mark.start() > mark.start()), default=len(reply)
        )
    ]


def _named(text: str, present: Sequence[str]) -> str | None:
    places = [(mark.start(), name) for name in present if (mark := re.search(rf"\b{re.escape(name)}\b", text, re.I))]
    return min(places)[1] if places else None
