"""Replies that put what counts in brackets (MADRA): passages by their numbers, whether all agree, an answer."""

from __future__ import annotations

import re

from sottovoce.channels.message import Message
from sottovoce.form import Form
from sottovoce.nodes.question import Question
from sottovoce.nodes.say import BEGUN
from sottovoce.nodes.state import Vote
from sottovoce.prompts import kinds
from sottovoce.prompts.kinds.marks import bracketed

CHOSEN = "Evidence:"
ENDS = re.compile(r"\[([^\[\]\n]{1,60})\]\W*\Z")
"""Brackets at the end of a reply: where a number is asked for, they are its answer and no passage's."""
AGREED = Form(choices=("[Yes]", "[No]"), unknown=False)


def selection_form(offered: int, most: int) -> Form:
    """Free words, and then a line that can only name pieces that there are, or none."""
    number = "|".join(map(str, range(offered)))
    more = rf"(?: \[(?:{number})\]){{0,{most - 1}}}" if most > 1 else ""
    return Form(pattern=rf"\[(?:{number})\]{more}|\[No Found\]", after=CHOSEN, unknown=False)


def selected(text: str, offered: int, most: int) -> list[int]:
    """The numbers in brackets that there are, in the order in which they first stand, the first `most` of them.

    What stands behind the last "Evidence:" counts, if that is there. Where nothing valid stands, none is chosen.

    >>> selected("[2] tells his town, [9] nothing. Evidence: [2] [1] [2]", offered=3, most=3)
    [2, 1]
    """
    told = text.rpartition(CHOSEN)[2]
    found = dict.fromkeys(int(number) for number in re.findall(r"\[\s*(\d{1,6})\s*\]", told))
    return [number for number in found if number < offered][:most]


def agree(text: str) -> bool:
    """Whether a judge says so: the last bracketed yes or no, else the first word; whatever cannot be read is a no.

    >>> agree("They both say Aldmoor: [YES]"), agree("No, [yes] is not what I say. [NO]"), agree("Hm.")
    (True, False, False)
    """
    marked = re.findall(r"\[\s*(yes|no)\b[^\[\]]{0,20}\]", text, re.IGNORECASE)
    first = re.match(r"\W*(yes|no)\b", text, re.IGNORECASE)
    return (marked[-1] if marked else first[1] if first else "no").lower() == "yes"


def stated(text: str, question: Question) -> str | None:
    """The answer of a reply: what the last brackets hold that are no number of a passage, else as every reply is read.

    A closing line "Answer: X" counts more than brackets before it.
    """
    closing = text.rpartition(BEGUN)[2]
    number = ENDS.search(closing) if question.get("kind", "number") == "number" else None
    inside = number[1] if number else bracketed(closing)
    answer = kinds.read_field(inside, question) if inside else None
    return answer if answer is not None else kinds.read_reply(text, question)


def ballot(message: Message, question: Question) -> Vote:
    """What a message was read as."""
    answer = stated(message.whole, question)
    return {"agent": message.agent, "answer": answer, "counts": answer is not None}
