r"""Marks of an answer, for all kinds: `Answer: X`, a box, "the answer is X", "X is the answer", brackets.

The last statement in a text counts. Statements that are not the reply's own do not: hypothetical ones ("if the answer
is B"), reported ones ("Agent 2 says that the answer is B") and others' ("Agent 2's answer", "the only other choice").
Time is linear in the length of the text: each pattern examines a bounded number of characters.
"""

import re
import string
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

from sottovoce.prompts.kinds.prose import BLANK

How = Literal["marked", "boxed", "bare", "asked"]
"""A statement ("Answer: X", "the answer is X"); a box, field or brackets; a reply that is only the answer; or an answer
turn."""
WIDTH = 400  # characters of a statement that are examined
MAX_STATEMENTS = 20  # statements that are examined, from the end
LONGEST_SOURCE = 1000  # characters of a box; no answer is longer
BEFORE = 60  # characters before a statement that show whose it is

_NAME = r"(?:(?:the|my|our)\s+)?(?:(?:final|correct|right|best|short)\s+)*answer"
_SAID = rf"(?=([^\n]{{0,{WIDTH}}}))"  # ahead: marks may overlap
CLOSING = re.compile(
    rf"^[^\w\n]{{0,9}}{_NAME}(?:\s+is)?[^\w\n:=]{{0,4}}"
    rf"(?:[:=](?:[ \t]*\n\s{{0,80}}|[ \t]*)|(?<=\s)[\u2013\u2014-]\s|\n\s{{0,80}}){_SAID}",
    re.IGNORECASE | re.MULTILINE,
)
BOX = re.compile(r"\\f?box(?:ed)?\s?\{")
BESIDE_BOX = re.compile(r"\\boxed\{(?:[\s.\u2026]|\\l?dots){1,9}\}\$?\s{0,3}[:=][ \t]{0,9}([^\n]{1,400})")
r"""An answer after an empty box, as in the request: `\boxed{...}: X`."""
OTHERS = re.compile(
    r"(?:(?:'s|s'|\b(?:others?|another|wrong|incorrect|valid|possible|plausible|alternative|common|tempting|obvious|naive|intuitive|first|initial|previous|earlier"
    r"|original|his|her|their|your|no|any|every|each))"
    r"|\b(?:if|whether|suppos\w{1,4}|assum\w{1,4}|unless|says?|said|claims?|claimed|argues?|argued|thinks|thought"
    r"|states|stated|believes|suggests?|suggested)(?:\sthat)?(?:\s(?:the|their|its))?(?:\s(?:correct|right|final))?)\s\Z",
    re.IGNORECASE,
)
"""Words before a statement that is not the reply's own."""
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
LONG = 8  # words; a longer line may be the beginning of a calculation, not an answer
CITED = re.compile(
    r"(?<=[\w.)\"'*])(?:\s{0,3}[\[\u3010]\d{1,3}(?:\s?[,;-]\s?\d{1,3}){0,9}[\]\u3011]){1,9}(?=[\W_]{0,9}\Z)"
)
"""Numbers of sources after an answer."""
TAKEN_BACK = re.compile(
    r"(?:[.!?]\s|\n)\W{0,9}(?:(?:oh|hmm|no|but),?\s)?(?:wait|hold on|oops|correction|scratch that"
    r"|on (?:second|further) thought|on reflection|i (?:made|have made) an? (?:\w{1,12} )?(?:mistake|error)"
    r"|(?:this|my) (?:\w{1,12} )?answer (?:is|was) (?:wrong|incorrect|not correct))\b",
    re.IGNORECASE,
)
"""Words after an answer that retract it."""
PREFIX = re.compile(r"^\(?[A-Z]\)\s*")
"""A letter that a choice may begin with."""


@dataclass(frozen=True)
class Mark:
    """One statement of an answer."""

    at: int
    """The position in the text."""
    text: str
    how: Literal["marked", "boxed"]
    is_line: bool = False
    """Whether it is a line that begins with "Answer:", which has an answer or nothing."""


def marks(text: str, nouns: str = "answer") -> list[Mark]:
    """Return the statements of a `plain` text, the last first, without blanks and calculations."""
    by_place = {at: Mark(at, said, "marked") for at, said in _statements(text, nouns)}
    for match in CLOSING.finditer(text):
        by_place[match.start(1)] = Mark(match.start(1), match[1], "marked", is_line=True)
    said = [by_place[at] for at in sorted(by_place)[-MAX_STATEMENTS:]]
    said += [Mark(at, box, "marked" if _is_within(at, said) else "boxed") for at, box in _boxes(text)]
    said += [Mark(match.start(1), match[1], "boxed") for match in BESIDE_BOX.finditer(text)]
    ordered = sorted(said, key=lambda mark: mark.at, reverse=True)[:MAX_STATEMENTS]
    cut = [Mark(mark.at, CITED.sub("", mark.text[:LONGEST_SOURCE]), mark.how, mark.is_line) for mark in ordered]
    return [mark for mark in cut if not BLANK.fullmatch(mark.text) and not _is_working(mark)]


def is_taken_back(mark: Mark, text: str) -> bool:
    """Return whether a text retracts a statement after making it."""
    return bool(TAKEN_BACK.search(text, mark.at))


def _is_within(at: int, statements: list[Mark]) -> bool:
    return any(statement.at <= at < statement.at + len(statement.text) for statement in statements)


def _is_working(mark: Mark) -> bool:
    """Return whether a mark only introduces a calculation: "Answer: To find the total, we add ..."."""
    is_long = bool(WORKING.match(mark.text)) and len(mark.text.split()) > LONG
    return mark.is_line and (is_long or bool(OPENS_WORKING.match(mark.text)))


def _statements(text: str, nouns: str) -> Iterator[tuple[int, str]]:
    """Yield the text after each "answer is" or "Answer:", and before each "is the answer", with its position."""
    after, before = _statement(nouns)
    for match in after.finditer(text):
        if not OTHERS.search(text[max(0, match.start() - BEFORE) : match.start()]):
            yield match.start(2), ("not " if match[1] else "") + match[2]
    yield from ((match.start(1), match[1] + match[2]) for match in before.finditer(text))
    yield from ((match.start(1), match[1]) for match in CHOOSES.finditer(text))


@cache
def _statement(nouns: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return patterns of statements after their verb ("the answer is X") and before it ("X is the answer")."""
    says = (
        r"(?::|\s(?:is|would be|should be|must be|will be)\b|\s(?:is|would|should)(n't)(?: be)?\b"
        r"|\s(?=can ?not\b|can't\b|could ?n[o']t\b))"
    )
    to_what = r"(?:\s+(?:to|for|that fits|that applies)\b[^.:\n]{0,120}?)?"
    after = rf"\b(?:{nouns})(?:\s{{0,9}}=|{to_what}\s{{0,9}}{says})\s{{0,80}}:?\s{{0,80}}{_SAID}"
    begins = r"(?:^|[.!?:,\n]\s|\bso )[ \t]{0,9}(?!(?:what|which|who|where|how|it|this|that|here)\b)"
    verb = r"\s(?:is|would be) (?:the|my|an?) (?:\w{1,12} ){0,2}"
    before = rf"{begins}([^.!?:\n]{{1,200}}?)(?:, which)?{verb}(?:{nouns})\b([^.\n]{{0,80}})"
    return re.compile(after, re.IGNORECASE), re.compile(before, re.IGNORECASE)


def _boxes(text: str) -> Iterator[tuple[int, str]]:
    r"""Yield the content of the last boxes, up to the matching brace; an unclosed box runs to the end."""
    for match in [*BOX.finditer(text)][-MAX_STATEMENTS:]:
        depth, end = 1, match.end()
        for letter in text[match.end() : match.end() + LONGEST_SOURCE]:
            depth += {"{": 1, "}": -1}.get(letter, 0)
            if depth == 0:
                break
            end += 1
        yield match.end(), text[match.end() : end]


def boxed(text: str) -> str | None:
    r"""Return the content of the last `\boxed{...}`."""
    return next((box for _, box in reversed([*_boxes(text)])), None)


def bracketed(text: str) -> str | None:
    """Return the text in the last square brackets, except sources ("see ...") and numbers not alone on their line."""
    for match in reversed([*re.finditer(r"\[([^\[\]\n]{1,200})\]", text)]):
        start, end = text.rfind("\n", 0, match.start()) + 1, text.find("\n", match.end())
        line = (
            text[max(start, match.start() - WIDTH) : match.start()] + text[match.end() :][: max(0, end - match.end())]
        )
        if re.match(r"\s*(?:see|source|document|doc)\b", match[1], re.IGNORECASE):
            continue
        if re.search(r"\w", match[1]) and not (match[1].strip().isdigit() and re.search(r"\w", line)):
            return match[1].strip()
    return None


def unmarked(field: str) -> str | None:
    """Return a field's text without a box or brackets around it."""
    inner = re.fullmatch(r"\[([^\[\]]+)\]", field)
    return (boxed(field) or (inner[1] if inner else field)).strip() or None


def normalise(text: str) -> str:
    """Normalize a text as SQuAD does: lowercase, no ASCII punctuation, no articles, single spaces."""
    text = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())
