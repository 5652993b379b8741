r"""Statements of an answer in a reply: `Answer: X`, "the answer is X", a box, `<answer>` tags, brackets at the end.

A statement is the reply's own (see `prompts.own`). A tool call states nothing, closed or not. Time is linear in the
length of the text: each pattern examines a bounded number of characters.
"""

import re
import string
import unicodedata
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal

from sottovoce.prompts.own import BEHIND, CONDITION, SENTENCE_END, is_own, is_upheld

How = Literal["marked", "boxed", "bare", "asked"]
"""By words ("Answer: X"); in a box, field or brackets; as a reply that is only the answer; or by an answer turn."""
LONGEST = 20_000  # characters; only the end of a longer text is read, where an answer is
WIDTH = 400  # characters of a statement
MAX_STATEMENTS = 20  # that are examined, from the end

WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
WIDE |= str.maketrans("\u2212\u2019\u3000\u3010\u3011", "-' []")
"""Full-width signs, minus and apostrophe as ASCII."""
TOOL_CALL = re.compile(r"<(tool_call|function_call|tool_response)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
WORDS = re.compile(
    r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mathsf|mbox|operatorname)\s*\{((?:[^{}]|\{[^{}]{0,100}\}){0,400})\}"
)
MARKUP: list[tuple[re.Pattern[str], str]] = [
    (re.compile(r"^[ \t]*```[\w-]*[ \t]*$", re.MULTILINE), ""),
    (re.compile(r"^#{4}[ \t]{1,9}(?=[-$\d])", re.MULTILINE), "Answer: "),  # GSM8K's own mark
    (re.compile(r"^[ \t]*#{1,6}[ \t]+", re.MULTILINE), ""),
    (re.compile(r"<((?:final[_ ]?)?answer)>\s{0,9}([^<]{1,400}?)\s{0,9}(?:</\1>|\Z)", re.IGNORECASE), r"\\boxed{\2}"),
    (re.compile(r"</?(?:b|i|u|em|strong|code|p|br)\s?/?>|`", re.IGNORECASE), ""),
    (re.compile(r"~~[^~\n]{1,200}~~"), ""),
    (re.compile(r"(?<![\w)*])\*{1,3}(?=[^\s*])|(?<=[^\s*])\*{1,3}(?![\w(*])"), ""),  # not those of 2**3 and 5 * 4
    (re.compile(r"(?<!\w)_{1,2}([^_\n]{1,200})_{1,2}(?!\w)"), r"\1"),
    (WORDS, r"\1"),
    (WORDS, r"\1"),  # bold text within a box's text
    (re.compile(r"\\[()\[\]]|(?<!\\)\$(?=\s*\\)|(?<=\})\$|\$(?=[^$\n]{1,200}\$(?!\d))|(?<=[^\s$])\$(?!\d)"), ""),
    (re.compile(r"(?:^|(?<=[.!?]\s))(?:end|finish|close|conclude|reply|respond)\s+with\b[^\n]*", re.I | re.M), ""),
]
"""Markdown, tags, delimiters of LaTeX (a dollar before a figure is money), and a request that a model repeats."""
_WORD = (
    r"(?:answer|antwort|ergebnis|lösung|réponse|respuesta|risposta|resposta|antwoord|svar|odpowiedź|cevap|jawaban"
    r"|ответ|відповідь|答案|回答|答え|정답|답변)"
)
_FINAL = r"final|correct|corrected|updated|new|revised|endgültige|finale|最终|正确|最終"
_ADJECTIVES = rf"(?:(?:{_FINAL}|right|best|short|likely)\s?){{0,3}}"
_OWN = rf"(?:(?:the|my|our|die|la|il|el)\s+)?{_ADJECTIVES}"
FINAL = re.compile(rf"\b(?:{_FINAL}|final[ea]?)\b|[最正]", re.IGNORECASE)
"""A word by which a statement replaces those before it."""
FURTHER = re.compile(
    rf"{_WORD}\W{{0,6}}(?:is\b\W{{0,3}})?[^\n]{{1,400}}(\n\s{{0,80}}(?:question|problem|claim|user|human|q)\s*:)", re.I
)
"""An answer, after which the model asks and answers further questions of its own."""
BOX = re.compile(r"\\f?box(?:ed)?\s?\{")
ITEM = re.compile(r"^\s{0,80}(?:[-*\u2022\u2013+]|\d{1,2}[.)])\s+(?=\S)")
"""The dash or counter of an item in a list."""
MINUS = re.compile(r"\s{0,9}[-\u2013]\s?[$\u20ac\u00a3\u00a5\u20b9]?\s?\.?\d")
"""A negative number, or an item of a list."""
CORRECTED = re.compile(
    r"(?:[.!?]\s|\n)\W{0,9}(?:(?:oh|hmm|no|but|so),?\s)?(?:no(?=[,:])|wait|actually|hold on|oops|correction|hmm|edit:"
    r"|update:|scratch that|strike that|my bad|let me (?:re\w+|check|verify|double)|on (?:second|further) thought"
    r"|on reflection|i (?:made|have made) an?\s|i take (?:that|this|it) back|i retract|sorry,? i meant"
    r"|i (?:now\s)?(?:switch|change)|(?:it|this|that) should be|(?:it|that)'s (?:wrong|incorrect)"
    r"|(?:this|that|it) (?:is|was) agent"
    r"|(?:this|that|it|my \w{0,12}\s?answer) (?:is|was) (?:wrong|incorrect|not correct|not right))\b"
    r"|(?:\bnot|n't (?:take|count) (?:it|this|that) as) my (?:final )?answer\b",
    re.IGNORECASE,
)
"""Words by which a reply corrects what it stated before them."""
BLANK = re.compile(
    r"\W*(?:[NX]|(?:your|the|my)(?: final)? answer(?: here)?|answer|letter|l?dots|\.{2,}|\u2026)?\W*", re.IGNORECASE
)
"""A placeholder for the answer in a request."""
CITED = re.compile(r"(?<=[\w.)\"'*])\s{0,3}(?:\[\d{1,3}(?:\s?[,;-]\s?\d{1,3}){0,9}\]\s{0,3}){1,9}(?=[\W_]{0,9}\Z)")
"""Numbers of sources after an answer."""
AT_END = re.compile(
    r"(?:\[(?=[^\]\n]*[^\W\d])([^\[\]\n]{1,200})\]|(?:^|[.!?:]\s|\b(?:is|are)\s)\(([A-Z])\))[\s.*]*\Z", re.MULTILINE
)
"""Brackets at the end, and the letter of a choice in parentheses."""


@dataclass(frozen=True)
class Mark:
    """One statement of an answer."""

    at: int
    text: str
    how: Literal["marked", "boxed"]
    is_line: bool = False
    """Whether it is a line that begins with "Answer:", which has an answer or nothing."""
    is_final: bool = False
    """True if it calls itself the final or corrected answer."""


@lru_cache(maxsize=256)  # a reply is parsed several times
def plain(text: str) -> str:
    """Return a reply as plain text, without tool calls and markup; line breaks stay."""
    text = TOOL_CALL.sub("", text)[-LONGEST:].translate(WIDE)
    for pattern, meaning in MARKUP:
        text = pattern.sub(meaning, text)
    further = FURTHER.search(text)
    return text[: further.start(1)] if further else text


def marks(text: str, nouns: str = "answer") -> list[Mark]:
    """Return the own statements of a `plain` text, in order."""
    line, words = _patterns(nouns)
    boxed = {mark.at: mark for mark in own_boxes(text)}
    found = {**boxed}
    lines = {match.end(): match for match in line.finditer(text) if is_own(text, match.start())}
    within = {at for match in line.finditer(text) for at in range(*match.span())}
    for match in [*words.finditer(text)][-2 * MAX_STATEMENTS :]:
        at = match.end() if match[0][:3].lower() in ("my ", "our") else match.start()  # "Unlike agent 2, my answer is"
        if match.start() not in within and is_own(text, at):
            said = ("not " if match["denied"] else "") + said_at(text, match.end())
            found[match.end()] = Mark(match.end(), said, "marked", is_final=bool(FINAL.search(match[0])))
            lines.pop(match.start(), None)  # "Answer: The answer is 5"
    for at, match in lines.items():
        found[at] = Mark(at, said_at(text, at), "marked", is_line=True, is_final=bool(FINAL.search(match[0])))
    ordered = [found[at] for at in sorted(found)][-MAX_STATEMENTS:]
    stated = []
    for mark in ordered:
        inner = [at for at in boxed if mark.at < at <= mark.at + len(mark.text)]
        said = CITED.sub("", mark.text)
        is_conditional = CONDITION.search(SENTENCE_END.split(said[:BEHIND])[0])
        if not inner and not is_conditional and not BLANK.fullmatch(said):
            stated.append(Mark(mark.at, said, mark.how, mark.is_line, mark.is_final))
    end = None if stated else AT_END.search(text, max(0, len(text) - WIDTH))
    if end is None or not is_own(text, end.start(1 if end[1] else 2)) or BLANK.fullmatch(end[1] or end[2]):
        return stated
    return [Mark(end.start(), end[1] or end[2], "boxed")]


def own_boxes(text: str) -> list[Mark]:
    """Return the closed boxes of a `plain` text that are its own statements, in order."""
    found = list[Mark]()
    for match in [*BOX.finditer(text)][-MAX_STATEMENTS:]:
        said, at = _inside(text[match.end() : match.end() + 1000]), match.end()
        if is_own(text, match.start()) and not BLANK.fullmatch(said) and is_upheld(text[at + len(said) + 1 :][:WIDTH]):
            found.append(Mark(at, said, "boxed"))
    return found


def said_at(text: str, at: int) -> str:
    """Return the rest of the line, else the next line, or the items of a list there, one a line.

    One item that may be a negative number as well says neither.
    """
    line = text[at : at + WIDTH].partition("\n")[0]
    if re.search(r"\w", line):
        is_item = re.match(r"\s{0,9}[-*\u2022]\s", line) and not MINUS.match(line)
        return ITEM.sub("", line.lstrip()) if is_item else line
    lines, items = text[at : at + 2 * WIDTH].lstrip(" \t:\n").split("\n"), list[str]()
    for line in lines:
        if not ITEM.match(line):
            break
        items.append(ITEM.sub("", line).strip())
    is_either = len(items) == 1 and re.match(r"\s{0,80}[-\u2013]\s", lines[0]) and MINUS.match(lines[0])
    return "" if is_either else "\n".join(items) or lines[0]


@cache
def _patterns(nouns: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of the beginning of a line that states an answer, and of words that do."""
    noun = rf"(?:{_WORD}|(?:{nouns}))"
    line = (
        rf"^[^\w\n>]{{0,9}}{_OWN}{noun}(?:\s+(?:finale?|is))?[^\w\n:=]{{0,4}}"
        rf"(?:[:=][ \t*_\x22]{{0,9}}|(?<=\s)(?:\u2014|[\u2013-](?!\s?[$\u20ac\u00a3]?\s?\d))\s|(?=\n))"
    )
    to_what = r"(?:\s+(?:to|for)\b[^.:\n]{0,120}?)?"
    verb = r"\s(?:is|remains|stays|(?:would|should|must|will) be|ist|est|es|è)(?P<denied>n't|\snot)?\b|[是为為は]"
    words = (
        rf"(?:\b(?:the|my|our|die|la)\s+{_ADJECTIVES}|(?:^|(?<=[.!?,:;]\s)|(?<=。)|(?<=\bso\s)|(?=[最正答回])){_ADJECTIVES})"
        rf"{noun}{to_what}(?:\s{{0,9}}[:=]|{verb})[ \t]{{0,9}}[:=]?[ \t]{{0,9}}"
    )
    return re.compile(line, re.IGNORECASE | re.MULTILINE), re.compile(words, re.IGNORECASE | re.MULTILINE)


def _inside(text: str) -> str:
    depth = 1
    for at, letter in enumerate(text):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if depth == 0:
            return text[:at]
    return ""  # cut off


def normalise(text: str) -> str:
    """Normalize a text as SQuAD does, after Unicode's NFC: lowercase, no punctuation, no articles, single spaces."""
    text = unicodedata.normalize("NFC", text).lower()
    text = "".join(letter for letter in text if letter not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())
