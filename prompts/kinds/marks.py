r"""Where an answer stands in a text, whatever its kind: `Answer: X`, a box, "the answer is X", "X is the answer".

Nothing here grows faster than the text: what a pattern looks at is bounded.
"""

import re
import string
from collections.abc import Iterator
from functools import cache

from sottovoce.prompts.kinds.nothing import BLANK

WIDTH = 400  # characters of a statement that are looked at
MOST = 20  # statements that are looked at, the last ones
LONGEST_SOURCE = 1000  # characters of a box; no answer is longer

_NAME = r"(?:(?:the|my|our)\s+)?(?:(?:final|correct|right|best|short)\s+)*answer"
_SAID = rf"(?=([^\n]{{0,{WIDTH}}}))"  # ahead: marks may overlap
CLOSING = re.compile(
    rf"^[^\w\n]{{0,9}}{_NAME}(?:\s+is)?[^\w\n:=]{{0,4}}(?:[:=](?:[ \t]*\n\s{{0,80}}|[ \t]*)|\n\s{{0,80}}){_SAID}",
    re.IGNORECASE | re.MULTILINE,
)
PREFIX = re.compile(r"^\(?[A-Z]\)\s*")
"""A letter that a choice may bring along."""


def sources(text: str, nouns: str = "answer") -> Iterator[str]:
    """What a `plain` text marks as its answer, the strongest mark first.

    A closing line "Answer: X" counts more than a box, a box more than a sentence; of several of a sort the last.
    """
    box = boxed(text)
    closing = [found for found in CLOSING.findall(text[text.rfind("\\boxed{") + 1 :]) if not BLANK.fullmatch(found)]
    for source in (closing[-1] if closing else "", box or "", *reversed(statements(text, nouns)[-MOST:])):
        if not BLANK.fullmatch(source[:LONGEST_SOURCE]):
            yield source[:LONGEST_SOURCE]


def statements(text: str, nouns: str = "answer") -> list[str]:
    """What stands after each "answer is" or "Answer:", and before each "is the answer", to the end of its line."""
    after, before = _statement(nouns)
    found = [(each.start(2), ("not " if each[1] else "") + each[2]) for each in after.finditer(text)]
    found += [(each.start(1), each[1] + each[2]) for each in before.finditer(text)]
    return [said for _, said in sorted(found)]


@cache
def _statement(nouns: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What stands before a statement and, with its end, what stands around one."""
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


def boxed(text: str) -> str | None:
    r"""The content of the last `\boxed{...}`, to its matching brace; an unclosed one runs to the end."""
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    depth, content = 1, text[start + len("\\boxed{") :]
    for at, letter in enumerate(content):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if depth == 0:
            return content[:at]
    return content


def bracketed(text: str) -> str | None:
    """What the last square brackets hold; the number of a passage counts only where it has its line to itself."""
    for found in reversed([*re.finditer(r"\[([^\[\]\n]{1,200})\]", text)]):
        start, end = text.rfind("\n", 0, found.start()) + 1, text.find("\n", found.end())
        line = (
            text[max(start, found.start() - WIDTH) : found.start()] + text[found.end() :][: max(0, end - found.end())]
        )
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
