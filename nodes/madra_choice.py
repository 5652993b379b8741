"""The reader of a MADRA debater's choice of evidence: passages by number, or none."""

from __future__ import annotations

import re

from sottovoce.core.response_format import Form

CHOSEN = "Evidence:"
MOST_IN_RANGE = 20

_RANGE = re.compile(r"\[?\b(\d{1,6})\]?\s?(?:-|\u2013|to)\s?\[?(\d{1,6})\b\]?")
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
