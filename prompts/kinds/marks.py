r"""Marks of an answer, for every kind alike: `Answer: X`, a box, "the answer is X", "X is the answer", brackets.

The last statement in a text wins. Not a statement of the reply's own: one that is supposed ("if the answer is B"),
reported ("Agent 2 says that the answer is B") or set apart ("Agent 2's answer", "the only other choice").
Time is linear in the length of the text: each pattern looks at a bounded number of characters.
"""

import re
import string
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

from sottovoce.prompts.kinds.nothing import BLANK

How = Literal["marked", "boxed", "mined"]
"""A statement ("Answer: X", "the answer is X"), a box or field or brackets, or prose that marks nothing."""
WIDTH = 400  # characters of a statement that are looked at
MOST = 20  # statements that are looked at, the last ones
LONGEST_SOURCE = 1000  # characters of a box; no answer is longer
BEFORE = 60  # characters before a statement that tell whose it is

_NAME = r"(?:(?:the|my|our)\s+)?(?:(?:final|correct|right|best|short)\s+)*answer"
_SAID = rf"(?=([^\n]{{0,{WIDTH}}}))"  # ahead: marks may overlap
CLOSING = re.compile(
    rf"^[^\w\n]{{0,9}}{_NAME}(?:\s+is)?[^\w\n:=]{{0,4}}"
    rf"(?:[:=](?:[ \t]*\n\s{{0,80}}|[ \t]*)|(?<=\s)[\u2013\u2014-]\s|\n\s{{0,80}}){_SAID}",
    re.IGNORECASE | re.MULTILINE,
)
BOX = re.compile(r"\\f?box(?:ed)?\s?\{")
BESIDE_BOX = re.compile(r"\\boxed\{(?:[\s.\u2026]|\\l?dots){1,9}\}\$?\s{0,3}[:=][ \t]{0,9}([^\n]{1,400})")
r"""An answer that stands behind its box, as the request shows one: `\boxed{...}: X`."""
OTHERS = re.compile(
    r"(?:(?:'s|s'|\b(?:others?|another|wrong|incorrect|valid|possible|plausible|alternative|common|tempting|obvious|naive|intuitive|first|initial|previous|earlier"
    r"|original|his|her|their|your|no|any|every|each))"
    r"|\b(?:if|whether|suppos\w{1,4}|assum\w{1,4}|unless|says?|said|claims?|claimed|argues?|argued|thinks|thought"
    r"|states|stated|believes|suggests?|suggested)(?:\sthat)?(?:\s(?:the|their|its))?(?:\s(?:correct|right|final))?)\s\Z",
    re.IGNORECASE,
)
"""Before a statement that is not the reply's own."""
CHOOSES = re.compile(
    rf"\bI(?:'d| would| will|'ll)?\s(?:choose|pick|select|go with|vote for|opt for|settle on)\b"
    rf"\s{{0,3}}:?\s{{0,3}}{_SAID}"
)
"""A choice in the writer's own words."""
WORKING = re.compile(
    r"\W*(?:to|first(?:ly)?|let(?:'s)?|we|since|given|step|start|begin|if|because|note|here|there|from|in|with)\b", re.I
)
OPENS_WORKING = re.compile(
    r"\W*(?:[Ll]et(?:'s| me| us)\s(?!be\b)[a-z]|[Ff]irst(?:ly)?,\s[a-z]"
    r"|[Ww]e (?:first|need|know|start|begin|can|must|have)\s)"
)
LONG = 8  # words of a line from which on it may be the first of a working, and no answer
CITED = re.compile(
    r"(?<=[\w.)\"'*])(?:\s{0,3}[\[\u3010]\d{1,3}(?:\s?[,;-]\s?\d{1,3}){0,9}[\]\u3011]){1,9}(?=[\W_]{0,9}\Z)"
)
"""Numbers of sources behind an answer."""
TAKEN_BACK = re.compile(
    r"(?:[.!?]\s|\n)\W{0,9}(?:(?:oh|hmm|no|but),?\s)?(?:wait|hold on|oops|correction|scratch that"
    r"|on (?:second|further) thought|on reflection|i (?:made|have made) an? (?:\w{1,12} )?(?:mistake|error)"
    r"|(?:this|my) (?:\w{1,12} )?answer (?:is|was) (?:wrong|incorrect|not correct))\b",
    re.IGNORECASE,
)
"""Words behind an answer with which its writer gives it up."""
PREFIX = re.compile(r"^\(?[A-Z]\)\s*")
"""A letter that a choice may bring along."""


@dataclass(frozen=True)
class Mark:
    """One statement of an answer."""

    at: int
    """Its place in the text."""
    text: str
    how: Literal["marked", "boxed"]
    is_line: bool = False
    """A line that begins with "Answer:", which holds an answer or nothing."""


def marks(text: str, nouns: str = "answer") -> list[Mark]:
    """Return what a `plain` text states as its answer, the last statement first; blanks and workings are left out."""
    found = {at: Mark(at, said, "marked") for at, said in _statements(text, nouns)}
    for each in CLOSING.finditer(text):
        found[each.start(1)] = Mark(each.start(1), each[1], "marked", is_line=True)
    said = [found[at] for at in sorted(found)[-MOST:]]
    said += [Mark(at, box, "marked" if _is_within(at, said) else "boxed") for at, box in _boxes(text)]
    said += [Mark(each.start(1), each[1], "boxed") for each in BESIDE_BOX.finditer(text)]
    ordered = sorted(said, key=lambda mark: mark.at, reverse=True)[:MOST]
    cut = [Mark(mark.at, CITED.sub("", mark.text[:LONGEST_SOURCE]), mark.how, mark.is_line) for mark in ordered]
    return [mark for mark in cut if not BLANK.fullmatch(mark.text) and not _is_working(mark)]


def is_taken_back(mark: Mark, text: str) -> bool:
    """Tell whether a text gives up a statement after making it, and marks no other."""
    return bool(TAKEN_BACK.search(text, mark.at))


def _is_within(at: int, statements: list[Mark]) -> bool:
    return any(each.at <= at < each.at + len(each.text) for each in statements)


def _is_working(mark: Mark) -> bool:
    """Tell whether a mark only opens a working: "Answer: To find the total, we add ..."."""
    is_long = bool(WORKING.match(mark.text)) and len(mark.text.split()) > LONG
    return mark.is_line and (is_long or bool(OPENS_WORKING.match(mark.text)))


def _statements(text: str, nouns: str) -> Iterator[tuple[int, str]]:
    """Yield what stands after each "answer is" or "Answer:", and before each "is the answer", with its place."""
    after, before = _statement(nouns)
    for each in after.finditer(text):
        if not OTHERS.search(text[max(0, each.start() - BEFORE) : each.start()]):
            yield each.start(2), ("not " if each[1] else "") + each[2]
    yield from ((each.start(1), each[1] + each[2]) for each in before.finditer(text))
    yield from ((each.start(1), each[1]) for each in CHOOSES.finditer(text))


@cache
def _statement(nouns: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Compile what stands before a statement and, with its end, what stands around one."""
    says = (
        r"(?::|\s(?:is|would be|should be|must be|will be)\b|\s(?:is|would|should)(n't)(?: be)?\b"
        r"|\s(?=can ?not\b|can't\b|could ?n[o']t\b))"
    )
    asked = r"(?:\s+(?:to|for|that fits|that applies)\b[^.:\n]{0,120}?)?"
    after = rf"\b(?:{nouns})(?:\s{{0,9}}=|{asked}\s{{0,9}}{says})\s{{0,80}}:?\s{{0,80}}{_SAID}"
    begins = r"(?:^|[.!?:,\n]\s|\bso )[ \t]{0,9}(?!(?:what|which|who|where|how|it|this|that|here)\b)"
    verb = r"\s(?:is|would be) (?:the|my|an?) (?:\w{1,12} ){0,2}"
    before = rf"{begins}([^.!?:\n]{{1,200}}?)(?:, which)?{verb}(?:{nouns})\b([^.\n]{{0,80}})"
    return re.compile(after, re.IGNORECASE), re.compile(before, re.IGNORECASE)


def _boxes(text: str) -> Iterator[tuple[int, str]]:
    r"""Yield the content of the last boxes, each to its matching brace; an unclosed one runs to the end."""
    for each in [*BOX.finditer(text)][-MOST:]:
        depth, end = 1, each.end()
        for letter in text[each.end() : each.end() + LONGEST_SOURCE]:
            depth += {"{": 1, "}": -1}.get(letter, 0)
            if depth == 0:
                break
            end += 1
        yield each.end(), text[each.end() : end]


def boxed(text: str) -> str | None:
    r"""Return the content of the last `\boxed{...}`."""
    return next((box for _, box in reversed([*_boxes(text)])), None)


def bracketed(text: str) -> str | None:
    """Return what the last square brackets hold: no source ("see ..."), no number but one with a line to itself."""
    for found in reversed([*re.finditer(r"\[([^\[\]\n]{1,200})\]", text)]):
        start, end = text.rfind("\n", 0, found.start()) + 1, text.find("\n", found.end())
        line = (
            text[max(start, found.start() - WIDTH) : found.start()] + text[found.end() :][: max(0, end - found.end())]
        )
        if re.match(r"\s*(?:see|source|document|doc)\b", found[1], re.IGNORECASE):
            continue
        if re.search(r"\w", found[1]) and not (found[1].strip().isdigit() and re.search(r"\w", line)):
            return found[1].strip()
    return None


def unmarked(given: str) -> str | None:
    """What a field holds, without a box or brackets around it."""
    inner = re.fullmatch(r"\[([^\[\]]+)\]", given)
    return (boxed(given) or (inner[1] if inner else given)).strip() or None


def normalise(text: str) -> str:
    """SQuAD's normalisation: lower case, no ASCII punctuation, no articles, single spaces."""
    text = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())
