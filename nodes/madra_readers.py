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
_LIST = re.compile(r"^\s*[-*\u2022] \[.*$", re.MULTILINE)
"""A list in one line: "- [0] - [2]" names two passages."""
_NOUN = r"(?:passage|piece|number|document|item|source|text)s?"
_MARK = re.compile(
    r"(?:^|(?<=[.!?] ))[^\w\n]{0,9}(?:(?:my|the|final|chosen|selected) )?evidence"
    r"(?: (?:chosen|selected|used|numbers?|passages?))?[*_]{0,3} ?(?:[:=]|(?=\[)|$)",
    re.IGNORECASE | re.MULTILINE,
)
_GOES_ON = re.compile(rf"[^\w\[\n]{{0,9}}(?:{_NOUN} )?\[?\d", re.IGNORECASE)
"""The beginning of a line that continues a list."""
_IN_BRACKETS = re.compile(rf"(\b(?:not|nor|without|than) (?:{_NOUN} )?)?\[([\d\s,;&and]{{1,200}})\]", re.IGNORECASE)
_BARE = re.compile(rf"\A\W*(?:{_NOUN}\W+)?((?:\d{{1,6}}\b\W*(?:and\b\W*)?)+)", re.IGNORECASE)
_NOTHING = re.compile(r"\A\W*(?:none|nothing|no(?:t|ne)? found|no evidence)\b(?! (?:but|except))", re.IGNORECASE)
_AT_LAST = re.compile(r"\[no(?:t|ne)? found\]\W*\Z", re.IGNORECASE)


def selection_form(offered: int, most: int) -> Form:
    """Return the form of a choice: free text, then a line that names offered pieces or none."""
    number = "|".join(map(str, range(offered)))
    more = rf"(?: \[(?:{number})\]){{0,{most - 1}}}" if most > 1 else ""
    return Form(pattern=rf"\[(?:{number})\]{more}|\[No Found\]", after=CHOSEN, unknown=False)


def selected(text: str, offered: int, most: int) -> list[int] | None:
    """Return the first `most` chosen numbers below `offered`, each once, in the order of the reply; None without any.

    The last line "Evidence: ..." counts, or a reply that is nothing but numbers; "[No Found]" at the end chooses none.

    >>> selected("[2] tells his town, [9] nothing. Evidence: [2] [1] [2]", offered=3, most=3)
    [2, 1]
    >>> selected("None helps: [0] is about a fair. [No Found]", offered=3, most=3)
    []
    """
    if _AT_LAST.search(text):
        return []
    line = _marked_choice(text)
    if line is None:
        whole = _BARE.match(text)
        if whole is None or whole.end() != len(text):
            return None
        line = text
    line = _RANGE.sub(_spelled_out, _LIST.sub(lambda match: match[0].replace(" - [", " ["), line))
    numbers = [] if _NOTHING.match(line) else _numbers(line)
    return [number for number in dict.fromkeys(numbers) if number < offered][:most]


def _spelled_out(match: re.Match[str]) -> str:
    first, last = int(match[1]), int(match[2])
    return " ".join(f"[{number}]" for number in range(first, min(last, first + MOST_IN_RANGE) + 1)) or match[0]


def _marked_choice(text: str) -> str | None:
    """Return the text after the last "Evidence:", with the lines of a list that it begins; None without one."""
    mark = [*_MARK.finditer(text)][-1:]
    if not mark:
        return None
    first, *others = text[mark[0].end() :].strip("*_ \t").lstrip("\n").split("\n")
    lines = [first]
    for line in others:
        if line.strip(" \r*-") and not _GOES_ON.match(line):
            break
        lines.append(line)
    return "\n".join(lines)


def _numbers(line: str) -> list[int]:
    """Return the numbers in brackets, else those that begin the line; parentheses are remarks."""
    without = re.sub(r"\([^()]*\)", "", line)
    line = without if re.search(r"\d", without) else line
    wanted = [found[2] for found in _IN_BRACKETS.finditer(line) if not found[1]]
    bare = _BARE.match(line)
    return [int(number) for part in wanted or ([bare[1]] if bare else []) for number in re.findall(r"\d{1,6}", part)]


AGREED = Form(choices=("[Yes]", "[No]"), unknown=False)
ENDS = re.compile(r"\[([^\[\]\n]{1,60})\]\W*\Z")
"""Brackets at the end of a reply: if the question asks for a number, they contain the answer."""
_VERDICT = re.compile(
    r"(?:\[\s?|\bverdict(?: is)?[*_]{0,3}:?[*_\s]{0,4}|\n\W*(?=\w+\W*\Z))(yes|no)\b(?!\s+(?:and|or)\b)", re.I
)
"""A verdict in brackets, after that word, or alone on the last line."""

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

    >>> agree("Both answers are the same. [Yes]"), agree("No, they differ"), agree("Answer: yes")
    (True, False, True)
    """
    return verdict(text) is True


def verdict(text: str) -> bool | None:
    """Return a judge's verdict: the last [Yes] or [No], else what it states like any answer; None without one."""
    found = [*_VERDICT.finditer(text)]
    if found:
        return str(found[-1][1]).lower() == "yes"
    read = kinds.reading(text, {"question": "", "kind": "yes_no"})
    if read.answer is None or (read.how == "bare" and len(text.split()) > 1):  # "Yes, they differ"
        return None
    return read.answer == "yes"


def reading(text: str, question: Question, *, cut: bool = False) -> kinds.Reading:
    """Read the answer in a reply's last brackets, or else as in any reply; `cut` as in `kinds.reading`.

    Numbers in brackets that cite a passage are ignored. A last line "Answer: X" takes precedence over brackets before.
    """
    is_number = kinds.kind_of(question) == "number"
    text = uncited(text, is_number=is_number)
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
    return vote_of(message, reading(message.full_text, question, cut=message.cut))
