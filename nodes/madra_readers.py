"""Readers of replies in MADRA: the choice of evidence, the verdict of the judge, and an answer that cites passages."""

from __future__ import annotations

import re

from sottovoce.channels.message import Message
from sottovoce.core.response_format import Form
from sottovoce.nodes.decide import boxed, vote_of
from sottovoce.nodes.question import Question
from sottovoce.nodes.say import ANSWER_PREFILL
from sottovoce.nodes.state import Vote
from sottovoce.prompts import kinds
from sottovoce.prompts.kinds.marks import WIDTH

CHOSEN = "Evidence:"
MOST_IN_RANGE = 20

_RANGE = re.compile(r"\[?\b(\d{1,6})\]? ?(?:-|\u2013|to) ?\[?(\d{1,6})\b\]?")
"""A range of passages: "[0]-[2]", "0 to 2"."""
_NUMBERS = r"\d{1,6}(?:\s{0,3}(?:,|;|&|and)\s{0,3}\d{1,6}){0,20}"
_NOUN = r"(?:passage|piece|number|document|item|source|text)s?"
_MARK = re.compile(
    r"(?:^|(?<=[.!?] ))[^\w\n]{0,9}(?:(?:my|the|final|chosen|selected) )?evidence"
    r"(?: (?:chosen|selected|used|numbers?|passages?))?[*_]{0,3} ?(?:[:=]|(?=\[)|$)",
    re.IGNORECASE | re.MULTILINE,
)
_GOES_ON = re.compile(rf"[^\w\[\n]{{0,9}}(?:{_NOUN} )?\[?\d", re.IGNORECASE)
"""The beginning of a line that continues a list."""
_IN_BRACKETS = re.compile(
    rf"(\b(?:not|nor|without|than) (?:{_NOUN} )?)?\[\s{{0,3}}({_NUMBERS})\s{{0,3}}\]", re.IGNORECASE
)
_NAMED = re.compile(rf"\b{_NOUN}(?: is| are|:)? #?({_NUMBERS})\b", re.IGNORECASE)
_BARE = re.compile(rf"\A\W*(?:{_NOUN}\W+)?((?:\d{{1,6}}\b\W*(?:and\b\W*)?)+)", re.IGNORECASE)
_CHOOSES = re.compile(
    r"(?<!not )(?<!n't )\b(?:choose|chose|select|selected|pick|use|take|keep|rely on|go with)\b", re.IGNORECASE
)
_NO_FOUND = re.compile(r"\bno(?:t|ne)? found\b", re.IGNORECASE)
_NOTHING = re.compile(r"\A\W*(?:none|nothing|no(?:t|ne)? found|no evidence)\b(?! (?:but|except))", re.IGNORECASE)
_NONE_HELPS = re.compile(
    r"\bnone(?: of (?:them|these|those|(?:the|these) (?:\w{1,12} )?(?:passages|pieces|documents|texts)))?"
    r" (?:helps?|is|are|tells?|says?|answers?|names?|mentions?)\b",
    re.IGNORECASE,
)


def selection_form(offered: int, most: int) -> Form:
    """Return the form of a choice: free text, then a line that names offered pieces or none."""
    number = "|".join(map(str, range(offered)))
    more = rf"(?: \[(?:{number})\]){{0,{most - 1}}}" if most > 1 else ""
    return Form(pattern=rf"\[(?:{number})\]{more}|\[No Found\]", after=CHOSEN, unknown=False)


def selected(text: str, offered: int, most: int, *, cut: bool = False) -> list[int]:
    """Return the first `most` chosen numbers below `offered`, each once, in the order of the reply.

    The last line "Evidence: ..." counts. Without one, the last sentence that chooses counts, else all numbers that
    are named; a reply that was `cut` at the token limit before its line chooses nothing. A "[No Found]" after all
    numbers chooses nothing either.

    >>> selected("[2] tells his town, [9] nothing. Evidence: [2] [1] [2]", offered=3, most=3)
    [2, 1]
    >>> selected("None helps: [0] is about a fair. [No Found]", offered=3, most=3)
    []
    """
    text = kinds.without_thoughts(text)
    line = marked_choice(text)
    if line is None:
        numbers = [] if cut else _in_prose(text)
    else:
        line = _RANGE.sub(_spelled_out, line)
        listed = _numbers if _IN_BRACKETS.search(line) else _bare
        numbers = [] if _NOTHING.match(line) else listed(line)
    return [number for number in dict.fromkeys(numbers) if number < offered][:most]


def _spelled_out(match: re.Match[str]) -> str:
    first, last = int(match[1]), int(match[2])
    return " ".join(f"[{number}]" for number in range(first, min(last, first + MOST_IN_RANGE) + 1)) or match[0]


def marked_choice(text: str) -> str | None:
    """Return the text after the last "Evidence:", with the lines of a list that it begins; None without one."""
    mark = [*_MARK.finditer(text)][-1:]
    if not mark:
        return None
    first, *others = text[mark[0].end() :].strip("*_ \t").lstrip("\n").split("\n")
    lines = [first]
    for line in others:
        if not _GOES_ON.match(line):
            break
        lines.append(line)
    return "\n".join(lines)


def _in_prose(text: str) -> list[int]:
    """Return the numbers in a reply without the line."""
    if (whole := _BARE.match(text)) and whole.end() == len(text):
        return _bare(text)
    named, sentences = _numbers(text), re.split(r"(?<=[.!?])\s+|\n+", text)
    choosing = [part for part in sentences if _CHOOSES.search(part) and _numbers(part)]
    if choosing and named:
        return _numbers(choosing[-1])
    return [] if _NONE_HELPS.search(text) else named


def _numbers(text: str) -> list[int]:
    """Return the numbers in brackets, or else those after "passages", unless "No Found" comes last."""
    said = _aside(text)
    found = [*_IN_BRACKETS.finditer(said)] or [*_NAMED.finditer(said)]
    nothing = [*_NO_FOUND.finditer(said)]
    if not found or (nothing and nothing[-1].start() > found[-1].start()):
        return []
    wanted = [each for each in found if each.re is _NAMED or not each[1]]
    return [int(number) for each in wanted for number in re.findall(r"\d+", each[each.re.groups])]


def _bare(text: str) -> list[int]:
    """Return the numbers of a list at the beginning of a text."""
    found = _BARE.match(_aside(text))
    return [int(number) for number in re.findall(r"\d+", found[1])] if found else []


def _aside(text: str) -> str:
    """Return a text without its parentheses, unless nothing else has a number."""
    without = re.sub(r"\([^()]*\)", "", text)
    return without if re.search(r"\d|found", without, re.IGNORECASE) else text


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
    plain = re.sub(r"[*_`#>]", "", re.sub(r"</?\w{1,20}>", "\n", kinds.without_thoughts(text)))
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


def reading(text: str, question: Question, *, cut: bool = False) -> kinds.Reading:
    """Read the answer in a reply's last brackets, or else as in any reply; `cut` as in `kinds.reading`.

    Numbers in brackets that cite a passage are ignored. A last line "Answer: X" takes precedence over brackets before.
    """
    is_number = kinds.kind_of(question) == "number"
    text = uncited(kinds.without_thoughts(text), is_number=is_number)
    closing = text.rpartition(ANSWER_PREFILL)[2]
    number = ENDS.search(closing) if is_number else None
    inside = None if cut else number[1] if number else _bracketed(closing)
    answer = kinds.read_field(inside, question) if inside else None
    return kinds.reading(text, question, cut=cut) if answer is None else boxed(answer)


def _bracketed(text: str) -> str | None:
    """Return the text in the last square brackets, except sources ("see ...") and numbers not alone on their line."""
    for match in reversed([*re.finditer(r"\[([^\[\]\n]{1,200})\]", text)]):
        before, after = text[: match.start()].rpartition("\n")[2], text[match.end() :].partition("\n")[0]
        if re.match(r"\s*(?:see|source|document|doc)\b", match[1], re.IGNORECASE):
            continue
        if re.search(r"\w", match[1]) and not (match[1].strip().isdigit() and re.search(r"\w", before + after)):
            return match[1].strip()
    return None


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
