"""Parser of the result of an unmarked text: the number of its last claim, unless the text is cut off.

A long calculation has many numbers, and the last one of a text that is cut off is not an answer. Such a text is parsed
only if a sentence concludes ("So, there are 10 cups"), or repeats the question with a number in it.
"""

import re
from collections.abc import Mapping, Sequence, Set
from typing import Any

from sottovoce.prompts.kinds.about import GRAMMAR, WORD, asked, is_known
from sottovoce.prompts.kinds.expression import ALGEBRA, OPERATOR, UNSOLVED, outcome
from sottovoce.prompts.kinds.nothing import OPEN
from sottovoce.prompts.kinds.numerals import figures, simple, spelled
from sottovoce.prompts.kinds.sentences import CONCLUDES, is_whole, sentences

BRIEF, FEW = 25, 2  # words and sentences of a text whose last number is its result
SHORT = 12  # words of such a text without final punctuation
LISTED = re.compile(
    r"^\s{0,80}\d{1,3}[.)]\s+(?=\S)|\b(?:step|question|agent|round)[ _]#?\d+|\[\d{1,3}\]", re.IGNORECASE | re.MULTILINE
)
"""Numbers that count something else: items, steps, passages."""
FACTS = re.compile(r"(?:[-*\u2022] [^\n=]*+(?:\n\s*+|\Z)){2,99}")
"""A list of facts without an equation, which has no result."""
REMARK = re.compile(rf"(?<=[a-zA-Z])\s\(\d[\d\s.+*/\u00d7-]{{0,80}}{OPERATOR}[\d\s.+*/\u00d7-]{{0,80}}\)")
"""The calculation after a number: "12 apples (5 + 7)"."""
CUT = re.compile(rf"\d\s{{0,9}}{OPERATOR}?\s{{0,9}}(?:{OPERATOR}|=)\s*\Z")
SUMS_UP = re.compile(
    rf"{CONCLUDES.pattern}|.{{0,120}}\b(?:(?:sum|total|result)(?: is| of| =|:)|gives us|results in)\s[^\w\n]{{0,3}}\d",
    re.IGNORECASE,
)
AMOUNT = frozenset("many much far long old tall often number total".split())
SETS_OUT = re.compile(r"\W*to (?:find|get|calculate|determine|work out)\b", re.IGNORECASE)
STEP = re.compile(r"\W*first(?:ly)?\b", re.IGNORECASE)
CLAUSE = re.compile(r",\s+(?:which|that|and|but|or|so)\b")


def comes_to(text: str) -> str | None:
    """Return the number of the last concluding claim, or of the last claim of a brief text."""
    if CUT.search(text) or _is_under_way(text) or FACTS.fullmatch(text.strip()):
        return None
    body = REMARK.sub(" ", simple(LISTED.sub(" ", text)))
    every = [each for each in sentences(body) if not each.rstrip("\"')\u201d").endswith("?")]
    if not figures(body):
        return _spelled(body)
    if every and OPEN.search(every[-1]):
        return None
    ends, is_brief = is_whole(text), len(body.split()) <= (BRIEF if is_whole(text) else SHORT)
    concluding = [each for each in (every if ends else every[:-1]) if SUMS_UP.match(each)]
    concluding += every[-1:] if every and not ends and SUMS_UP.match(every[-1]) and _goes_on(every[-1]) else []
    if concluding and (found := result(concluding[-1])):
        return found
    if every and len(every[0].split()) <= 2 and len(figures(every[0])) == 1:  # "22", followed by its calculation
        return result(every[0])
    last = [each for each in every if figures(each)][-1:]
    is_worked = ends and (len(every) <= FEW or not LISTED.search(text)) and _builds(last, every)
    return result(last[0]) if last and (is_brief or is_worked) else None


def implied(text: str, question: Mapping[str, Any]) -> str | None:  # Any: see Kind
    """Return the number of the last claim that repeats the question: "She has 28 - 6 = 22 apples left"."""
    if CUT.search(text) or _is_under_way(text):
        return None
    asks = str(question.get("question", ""))
    wanted = {word.casefold() for word in WORD.findall(asked(asks))} - GRAMMAR - AMOUNT
    given = {value for _, _, value in figures(simple(asks))}
    every = sentences(simple(LISTED.sub(" ", text)))
    if every and OPEN.search(every[-1]):
        return None
    whole = every if is_whole(text) or (every and _goes_on(every[-1])) else every[:-1]
    holding = [each for each in whole if wanted and _holds(each, wanted) and not STEP.match(each)]
    last = next((each for each in reversed(holding) if SETS_OUT.match(each) or _is_new(each, given)), "")
    return None if SETS_OUT.match(last) and "=" not in last else result(last)


def _holds(claim: str, wanted: Set[str]) -> bool:
    words = frozenset(word.casefold() for word in WORD.findall(claim))
    return all(is_known(word, words) for word in wanted)


def _is_new(claim: str, given: Set[str]) -> bool:
    """Return whether a claim has a calculated number, or one that is not in the question."""
    found = result(claim)
    return found is not None and (found not in given or "=" in claim)


def result(claim: str) -> str | None:
    """Return the number of a claim: after its last equals sign, or else its last number."""
    if "=" not in claim and (told := outcome(claim)):
        return told
    said = next((each for each in reversed(CLAUSE.split(claim)) if "=" in each), claim)
    left, sign, right = said.rpartition("=")
    behind = right if figures(right) and not ALGEBRA.search(right) else left or right
    found = figures(behind)
    if not found:
        return None
    start, _, value = found[0] if sign and behind == right else found[-1]
    # "7-5" read from its end is 5, not -5: a minus right after a digit or bracket is an operator.
    return value.lstrip("-") if behind[:start].rstrip().endswith(tuple("0123456789)")) else value


def may_be_cut(source: str, text: str) -> bool:
    """Return whether a statement ends a long text without final punctuation: "so the answer is 1" of 18."""
    at_end = text.rstrip().endswith(source.rstrip()) and bool(re.search(r"\d\Z", source.rstrip()))
    own_line = text.rstrip().rpartition("\n")[2].rstrip().removesuffix(source.rstrip())
    return at_end and len(text.split()) > BRIEF and len(own_line.split()) > 3


def _builds(last: Sequence[str], every: Sequence[str]) -> bool:
    """Return whether a last claim is an equation that uses the result of an earlier one, if there is any."""
    earlier = {result(each) for each in every if "=" in each and each not in last}
    return any("=" in each and (not earlier or earlier & _values(each)) for each in last)


def _values(claim: str) -> set[str]:
    return {value.lstrip("-") for _, _, value in figures(claim)}


def _is_under_way(text: str) -> bool:
    """Return whether a longer text is cut off right after a figure of a conclusion or calculation."""
    last = simple("" if is_whole(text) else "".join(sentences(text)[-1:]))
    begins = len(text.split()) > BRIEF and (SUMS_UP.match(last) or UNSOLVED.search(last))
    return bool(begins and figures(last)) and not re.search(r"[^\d\s]", last[figures(last)[-1][1] :])


def bold(text: str) -> str | None:
    """Return the only number in bold text, alone or with words; headings do not count."""
    found = set[str]()
    for each in re.findall(r"\*\*([^*\n]{1,80})\*\*", text):
        named = figures(simple(LISTED.sub("", each)))
        found |= {named[0][2]} if len(named) == 1 and not each.rstrip().endswith(":") else set()
    return found.pop() if len(found) == 1 else None


def _goes_on(claim: str) -> bool:
    """Return whether words follow the last number, so that it is complete although its sentence is not."""
    found = figures(claim)
    behind = r"\s[a-zA-Z]+\s|\s(?![hmbt])[a-zA-Z]{2,}"  # whole words, or the beginning of one that is not "million"
    return bool(found) and bool(re.match(behind, claim[found[-1][1] :], re.IGNORECASE))


def _spelled(body: str) -> str | None:
    words = {value for _, value in spelled(body)} - {"1"}
    return words.pop() if len(words) == 1 and not OPEN.search(body) else None
