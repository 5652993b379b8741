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
from typing import TYPE_CHECKING, NamedTuple

from sottovoce.environments import trimmed
from sottovoce.prompts.own import is_own, is_own_lead

if TYPE_CHECKING:
    from sottovoce.channels.message import Message

NOTHING = "N/A"
"""The limit of a talk without an agreement."""
MARK = r"[\s>*_#`-]{0,8}"
MARKER = re.compile(rf"^{MARK}((?:final )?answer)[\s*_]{{0,4}}:[*_\s]{{0,8}}([^\n]*)", re.IGNORECASE | re.MULTILINE)
"""A line "Answer:", and the rest of it or the next line."""
NUMBER = re.compile(
    r"([0-9]{1,3}(?:,[0-9]{3}){1,2}|[0-9]{1,9})(?: ?tons?)?(?: of fish| each| (?:per|a) (?:person|head|month))?"
    r"(?: ?\([^()\d]*\))?[\s.*_`]*",
    re.IGNORECASE,
)
NONE = re.compile(r"(?:n ?/ ?a|none)\b(?! of)(?:\D*|\W*\(.*)", re.IGNORECASE)
MESSAGES = 10
"""Most messages of one talk, including its report."""
LABELS = {
    "say": r"say|response",
    "done": r"done|conversation conclusion(?: by me)?",
    "next": r"next(?: speaker)?",
}
"""Our labels, and those of the authors' prompt."""
LABEL = re.compile(
    rf"(?:^|(?<=\w[,;.] )(?=next\b)){MARK}(?:"
    + "|".join(rf"(?P<{name}>{of})" for name, of in LABELS.items())
    + r")[\s*_]{0,4}:[ \t*_]{0,4}",
    re.IGNORECASE | re.MULTILINE,
)
"""Start of a line with one of the labels, which models often set in bold."""
SUMMARY = re.compile(r"\A[^\n]{0,40}?\bsummary\b(?: (?:in|of)[^\n:.,]{0,30})?[\s*_]{0,4}:[\s*_]{0,4}", re.IGNORECASE)
"""The words before a summary that only announce it."""


def read_limit(message: Message) -> str:
    """Return the number in a reply's own line "Answer: N tons", or "N/A"; empty without one, or if two differ.

    The number may be followed by a person or a purpose, but not by anything that changes it: "12.5", "10-12" and "10%
    of the lake" are requested again.
    """
    text = message.whole_text
    stated = {_stated(line[2]) for line in MARKER.finditer(text) if is_own(text, line.start(1))}
    return stated.pop() if len(stated) == 1 else ""


def read_tons(message: Message) -> int | None:
    """Return the tons that a reply states; None if it states no number of them."""
    return int(limit) if (limit := read_limit(message)).isdigit() else None


def _stated(line: str) -> str:
    number = NUMBER.fullmatch(line)
    return number[1].replace(",", "") if number else NOTHING if NONE.fullmatch(line) else ""


def tons_pattern(most: int) -> str:
    """Return the pattern of "N tons" for N from 0 to `most`."""
    return f"(?:{'|'.join(map(str, range(most + 1)))}) tons"


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


def read_utterance(message: Message, present: Sequence[str]) -> Utterance:
    """Parse a reply to the agents in `present`.

    The text said is between the first "Say:" and the first "Done:" after it, over any number of lines. Without "Say:"
    it is the text before these labels. Only a plain "yes" ends the talk, and only a single name that is not denied
    names a speaker. What was cut is heard, but its labels mean nothing.
    """
    reply, labels = message.full_text, [*LABEL.finditer(message.full_text)]

    def label(name: str, start: int) -> re.Match[str] | None:
        return next((label for label in labels if label.lastgroup == name and label.start() >= start), None)

    def value(label: re.Match[str] | None) -> str:
        if label is None or message.cut:
            return ""
        end = next((after.start() for after in labels if after.start() > label.start()), len(reply))
        return reply[label.end() : end].strip(" \n.*_`#>")

    say = label("say", 0)
    begin = say.end() if say else 0
    done = label("done", begin)
    following = label("next", done.end() if done else begin)
    ends = [mark.start() for mark in (done, following, label("say", begin)) if mark]
    said = trimmed(reply, begin, min(ends, default=len(reply)))
    named = [(name, at) for name in present if (at := re.search(rf"\b{re.escape(name)}\b", value(following), re.I))]
    is_named = len(named) == 1 and is_own_lead(named[0][1].string[: named[0][1].start()])
    return Utterance(reply[slice(*said)], said, value(done).casefold() == "yes", named[0][0] if is_named else None)


def next_speaker(
    present: Sequence[str], speakers: Sequence[str], last: Utterance | None, most: int = MESSAGES
) -> str | None:
    """Return the agent that speaks after `speakers`; `last` is the last speaker's text. None if the talk is over.

    A talk has `most` messages including its report. The first agent starts. If the last speaker names no agent
    present, the next one in order speaks: models sometimes name absent people.
    """
    if last is None:
        return present[0]
    if last.done or len(speakers) + 1 >= most:
        return None
    return last.following or present[(present.index(speakers[-1]) + 1) % len(present)]


def read_summary(reply: str) -> str:
    """Return a summary without the words that announce it: "Summary:", "Here is a summary in one sentence:"."""
    return SUMMARY.sub("", reply.strip()).strip()
