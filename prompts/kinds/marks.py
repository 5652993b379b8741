r"""Where an answer stands in a text, whatever its kind: `Answer: X`, a box, "the answer is X", "X is the answer".

Nothing here grows faster than the text: what a pattern looks at is bounded, and of a text beyond `LONGEST`
only the end is read.
"""

import re
import string
from collections.abc import Iterator
from functools import lru_cache

LONGEST = 20_000  # characters; an answer stands at the end
WIDTH = 400  # characters of a statement that are looked at
MOST = 20  # statements that are looked at, the last ones
LONGEST_SOURCE = 1000  # characters of a box; no answer is longer

FENCE = re.compile(r"^[ \t]*```[\w-]*[ \t]*$", re.MULTILINE)
RESULT = re.compile(r"^#{4}[ \t]{1,9}(?=[-$\d])", re.MULTILINE)
"""GSM8K's own mark."""
HEADING = re.compile(r"^[ \t]*(?:#{1,6}|>)[ \t]+", re.MULTILINE)
STARS = re.compile(r"(?<![\w)*])\*{1,3}(?=[^\s*])|(?<=[^\s*])\*{1,3}(?![\w(*])")  # not those of 2**3 and 5 * 4
SLANTED = re.compile(r"(?<!\w)_{1,2}([^_\n]{1,200})_{1,2}(?!\w)")
WORDS = re.compile(
    r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mathsf|mbox|operatorname)\s*\{([^{}]{0,400})\}"
)
MATHS = re.compile(r"\\[()\[\]]|(?<!\\)\$(?=\s*\\)|(?<=\})\$|\$(?=[^$\n]{1,200}\$(?!\d))|(?<=[^\s$])\$(?!\d)")
"""Where LaTeX begins and ends; a dollar before a figure is money."""
ECHO = re.compile(
    r"(?:^|(?<=[.!?]\s))(?:show your steps and )?(?:end|finish|close|conclude|reply|respond|answer)\s+with\b[^\n]*",
    re.IGNORECASE | re.MULTILINE,
)
"""A request, as models repeat it: what stands in it as an example is no answer."""
GOES_ON = re.compile(
    r"\banswer\W{0,6}(?:is\b\W{0,3})?[^\n]{1,400}(\n\s{0,80}(?:question|problem|claim|user|human|q)\s*:)", re.IGNORECASE
)
"""After its answer a model may ask and answer further questions of its own."""
BLANK = re.compile(
    r"\W*(?:[NX]|(?:your|the|my)(?: final)? answer(?: here)?|answer|letter|\.{2,}|\u2026)?\W*", re.IGNORECASE
)
"""What stands in the place of an answer in a request: no answer either."""

_NAME = r"(?:(?:the|my|our)\s+)?(?:(?:final|correct|right|best|short)\s+)*answer"
_LINE = r"[ \t]*\n\s{0,80}|[ \t]*"
CLOSING = re.compile(rf"^[^\w\n]{{0,9}}{_NAME}(?:\s+is)?[^\w\n:=]{{0,4}}(?:[:=](?:{_LINE})|\n\s{{0,80}})(?=([^\n]{{0,{WIDTH}}}))",
                     re.IGNORECASE | re.MULTILINE)  # fmt: skip
OPEN_MARK = re.compile(r"\banswer(?:\s+is\s{0,9}:?|\s{0,9}:)\W*\Z", re.IGNORECASE)
"""A text that ends before its answer."""
PREFIX = re.compile(r"^\(?[A-Z]\)\s*")
"""A letter that a choice may bring along."""

UNKNOWN = re.compile(
    r"[\W_]{0,20}(?:that )?(?:(?:it|this|that|the answer)(?: is|'s)? )?(?:still |simply |currently )?(?:"
    r"(?:unknown|unclear|uncertain|unsure|undetermined|indeterminate|unanswerable|impossible)\b(?! (?-i:[A-Z]))"
    r"|not (?:\w+ )?(?:known|clear|sure|certain|given|stated|specified|provided|mentioned|available|possible|determined"
    r"|determinable|answerable)\b|(?:can ?not|can't|could not|couldn't) (?:be|say|tell|know|answer|determine|give|find)\b"
    r"|(?:can ?not|can't)\W{0,9}\Z|(?:i |we )?(?:do not|don't|cannot|can't) (?:know|tell|say|have|determine|answer)\b"
    r"|(?:there is )?not enough (?:info|data|evidence)|(?:there is )?insufficient|no (?:answer|one knows)\b"
    r"|none\b|n/a\b|\?{1,9}\W{0,9}\Z)",
    re.IGNORECASE,
)
"""What stands in the place of an answer where there is none."""
OPEN = re.compile(r"\b(?:do not|don't|cannot|can't|could not) (?:know|tell|say|answer|determine)\b", re.IGNORECASE)
"""After a number it takes back that it is the answer."""
SAYS_NOTHING = re.compile(
    r"[\W_]{0,20}(?:correct|right|wrong|incorrect|clear|obvious|reasonable|simple|easy|as follows|below|above|found|given|based"
    r"|determined|straightforward|indeed|therefore|that it)\b",
    re.IGNORECASE,
)
"""What is said about an answer instead of naming it."""


@lru_cache(maxsize=256)  # readers, and whoever asks whether a text declines, see the same one several times
def plain(text: str) -> str:
    """The text without Markdown, LaTeX's marks, an echo of its request, and what comes after its own answer."""
    text = text[-LONGEST:].replace("\uff1a", ":").replace("\u2019", "'")
    text = HEADING.sub("", FENCE.sub("", RESULT.sub("Answer: ", text))).replace("`", "")
    text = SLANTED.sub(r"\1", STARS.sub("", text))
    text = WORDS.sub(r"\1", WORDS.sub(r"\1", text))  # bold text within a box's text
    text = MATHS.sub("", ECHO.sub("", text))
    further = GOES_ON.search(text)
    return text[: further.start(1)] if further else text


def sources(text: str, nouns: str = "answer") -> Iterator[str]:
    """What a `plain` text marks as its answer, the strongest mark first.

    A closing line "Answer: X" counts more than a box, a box more than a sentence; of several of a sort the last.
    """
    box = boxed(text)
    closing = [found for found in CLOSING.findall(text[text.rfind("\\boxed{") + 1 :]) if not BLANK.fullmatch(found)]
    for source in (closing[-1] if closing else "", box or "", *reversed(statements(text, nouns)[-MOST:])):
        if not BLANK.fullmatch(source):
            yield source[:LONGEST_SOURCE]


def statements(text: str, nouns: str = "answer") -> list[str]:
    """What stands after each "answer is" or "Answer:", and before each "is the answer", to the end of its line."""
    after = re.compile(
        rf"\b(?:{nouns})(?:\s+(?:to|for)\b[^.:\n]{{0,120}}?)?\s{{0,9}}(?:[:=]|\s(?:is|would be|should be|must be|will be)\b"
        rf"|\s(?:is|would|should)(n't)(?: be)?\b|\s(?=can ?not\b|can't\b|could ?n[o']t\b))\s{{0,80}}:?\s{{0,80}}(?=([^\n]{{0,{WIDTH}}}))",
        re.IGNORECASE,
    )
    before = re.compile(
        rf"(?:^|[.!?:,\n]\s|\bso )[ \t]{{0,9}}(?!(?:what|which|who|where|how|it|this|that|here)\b)([^.!?:\n]{{1,200}}?)\s(?:is|would be) (?:the|my) (?:\w{{1,12}} ){{0,2}}"
        rf"(?:{nouns})\b([^.\n]{{0,80}})",
        re.IGNORECASE,
    )
    found = [(each.start(2), ("not " if each[1] else "") + each[2]) for each in after.finditer(text)]
    found += [(each.start(1), each[1] + each[2]) for each in before.finditer(text)]
    return [said for _, said in sorted(found)]


def stated(text: str) -> str | None:
    """What stands after the last "answer is" or "Answer:", to the end of its line."""
    found = statements(text)
    return found[-1] if found else None


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
