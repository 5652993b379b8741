"""Readers of MADRA's replies: a judge's verdict, and an answer that cites passages."""

from __future__ import annotations

import re

from sottovoce.channels.message import Message
from sottovoce.core.response_format import Form
from sottovoce.nodes.question import Question
from sottovoce.nodes.say import ANSWER_PREFILL
from sottovoce.nodes.state import Vote
from sottovoce.nodes.votes import boxed, vote_of
from sottovoce.prompts import kinds
from sottovoce.prompts.kinds.marks import WIDTH, bracketed

AGREED = Form(choices=("[Yes]", "[No]"), unknown=False)
ENDS = re.compile(r"\[([^\[\]\n]{1,60})\]\W*\Z")
"""Brackets at the end of a reply: if the question asks for a number, they contain the answer."""

_LABEL = r"(?:(?:my|the|final) ){0,2}(?:answer|reply|verdict|agreement|judge?ment|decision|conclusion)(?: is)?\s{0,3}:"
_MARKED = re.compile(
    rf"\[\s{{0,3}}(yes|no)\b[^\[\]]{{0,20}}\]|\\boxed\{{\s?(?:\\text\{{)?(yes|no)\b|^\W{{0,9}}{_LABEL}\W{{0,9}}(yes|no)\b"
    r"|\b(?:my (?:answer|verdict)|the verdict) is (yes|no)\b",
    re.IGNORECASE | re.MULTILINE,
)
_ALONE = re.compile(
    r"(?:^\W{0,9}|[.!?;]\s{1,9}|\b(?:so|thus|hence|therefore|overall|in short),? "
    r"|\bI(?: would|'d|'ll| will)? (?:say|answer|reply),? |\b(?:agree|disagree|differ|same|match)[:,] "
    r"|\s[-\u2013\u2014]\s?)"
    r"[\"'(]{0,2}(yes|no)\b"
    r"(?=[\"')]{0,2}\s{0,3}(?:[.,!:;\u2013\u2014-]|\Z|\n|(?:they|both|all|the|and no|and yes)\b))",
    re.IGNORECASE | re.MULTILINE,
)
_BOTH_WAYS = re.compile(r"\b(?:yes\W{0,4}(?:or|and|/)\W{0,4}no|no\W{0,4}(?:or|and|/)\W{0,4}yes)\b", re.IGNORECASE)
_DIFFER = re.compile(
    r"\b(?:differ|differs|different|disagree|not the same)\b|(?:\bnot|n't) (?:agree|match)\b", re.IGNORECASE
)
_SAME = re.compile(r"(?<!not the )\bsame\b|\b(?:identical|equivalent)\b", re.IGNORECASE)

_CITED = r"\[\d{1,2}(?:\s?[,;]\s?\d{1,2}){0,9}\](?:(?:,| and| &)? ?\[\d{1,2}\]){0,9}"
_CITATION = re.compile(
    rf"\b(\w{{1,40}})([*_\"'\u201d)]{{0,3}}) ?"
    rf"(?:\((?:(?:see|from|sources?|cf\.|by|passages?):? ?){{0,2}}{_CITED}\)|{_CITED})"
    r"(?=[*_]{0,3}(?:[.,;:!?)]|\s*$))",
    re.IGNORECASE | re.MULTILINE,
)
_BEFORE_A_VALUE = frozenset(
    "as by in from of to see per is are was were be and or only answer equals makes gives leaves totals".split()
)
"""Words after which a number in brackets is part of the sentence: "is told in [3]", "the answer is [7]"."""


def agree(text: str) -> bool:
    """Return True if a judge finds that the answers agree; False also without a verdict.

    >>> agree("Both answers are the same. Yes."), agree("No, they differ"), agree("Yes, they differ.")
    (True, False, False)
    """
    return verdict(text) is True


def verdict(text: str) -> bool | None:
    """Return a judge's last stand-alone yes or no, or None without one.

    A marked verdict, such as [Yes] or "Verdict: no", takes precedence over an unmarked one, which is the first word
    of a sentence. A verdict that contradicts itself is a no: "yes and no", "Yes, they differ".
    """
    plain = re.sub(r"[*_`#>]", "", re.sub(r"</?\w{1,20}>", "\n", text))
    found = [*_MARKED.finditer(plain)] or [*_ALONE.finditer(plain)]
    if not found:
        return None
    last = found[-1]
    around = plain[max(0, last.start() - 12) :]
    sentence = re.split(r"[.!?\n]", plain[last.start(last.lastindex or 0) :], maxsplit=1)[0]
    contradicts = _BOTH_WAYS.search(around) or (_DIFFER.search(sentence) and not _SAME.search(sentence))
    return str(last[last.lastindex or 0]).lower() == "yes" and not contradicts


def stated(text: str, question: Question) -> str | None:
    """Return the answer of `reading`."""
    return reading(text, question).answer


def reading(text: str, question: Question) -> kinds.Reading:
    """Read the answer in a reply's last brackets, or else as in any reply.

    Numbers in brackets that cite a passage are ignored. A last line "Answer: X" takes precedence over brackets before.
    """
    is_number = kinds.kind_of(question) == "number"
    text = uncited(text, is_number=is_number)
    closing = text.rpartition(ANSWER_PREFILL)[2]
    number = ENDS.search(closing) if is_number else None
    inside = number[1] if number else bracketed(closing)
    answer = kinds.read_field(inside, question) if inside else None
    return kinds.reading(text, question) if answer is None else boxed(answer)


def uncited(text: str, *, is_number: bool = False) -> str:
    """Return a text without the citations that end its clauses; if `is_number`, without those after a number.

    >>> uncited("Letters to Cleo [0]."), uncited("340 m (see [0] and [3])"), uncited("It is told in [3].")
    ('Letters to Cleo.', '340 m', 'It is told in [3].')
    >>> uncited("It is 340 m long [0].", is_number=True), uncited("They say [22].", is_number=True)
    ('It is 340 m long.', 'They say [22].')
    """

    def without(match: re.Match[str]) -> str:
        before = text[max(0, match.start() - WIDTH) : match.end(1)]
        said = re.sub(_CITED, "", before.rpartition("\n")[2])
        stays = match[1].lower() in _BEFORE_A_VALUE or (is_number and not re.search(r"\d", said))
        return match[0] if stays else match[1] + match[2]

    return _CITATION.sub(without, text)


def read_vote(message: Message, question: Question) -> Vote:
    """Return the vote in a message."""
    return vote_of(message, reading(message.full_text, question))
