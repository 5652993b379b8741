"""Parsers for the replies of coders, testers, judges and rankers in CodeGen, and the similarity of solutions.

Nothing here runs a program; `problems.py` does. The rules follow Ohav/DyLAN's code (schemes of arXiv 2502.05986).
"""

from __future__ import annotations

import ast
import re
import textwrap
import threading
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from sottovoce.core.response_format import Form
from sottovoce.environments import trimmed
from sottovoce.prompts.own import is_own, is_own_lead

if TYPE_CHECKING:
    from sottovoce.channels.message import Message

# Programs

BLOCK = re.compile(
    r"^[ \t]*+(?P<fence>`{3,}+|~{3,}+)[ \t]*+(?P<language>[\w+-]*+)[^\n`]*+\n(?P<code>.*?)^[ \t]*(?P=fence)",
    re.DOTALL | re.MULTILINE,
)
"""A fenced block with its end. Its lines may contain fences except at their start."""
FENCE = re.compile(r"`{3}|~{3}")
HELP = re.compile(r"^[ \t*_#>-]{0,8}help:", re.IGNORECASE | re.MULTILINE)
PYTHON = ("", "python", "py", "python3", "py3")
MOST_BLOCKS = 50  # the last ones of a reply
ANYTHING = r"(?:\n(?s:.*))?"
CODE = r"\n(?:[ \t]*(?:(?:[^` \t\n]|``?[^`\n])[^\n]*)?\n)+[ \t]*```[^\n]*"
"""A code block after its opening: lines that do not begin with a fence, and the fence."""
LOWEST, HIGHEST = 1, 5
"""Bounds of the score that a coder gives a judge for its helpfulness."""
PARSING = threading.Lock()
"""Lock for parsing: threads that parse at once raise SystemError in Python 3.11 (python/cpython#106905)."""


def code_form(judges: int = 0) -> Form:
    """Return the form of a Python block after free reasoning; coders that score `judges` get the form of scores only.

    Only one part of a reply can have a form, and monitors read the scores.
    """
    if judges:
        listed = ", ".join([f"[{LOWEST}-{HIGHEST}]"] * judges)
        return Form(pattern=rf"\[\[{listed}\]\]", after="Help:", unknown=False)
    return Form(pattern=f"{CODE}{ANYTHING}", after="```python", unknown=False)


class Program(NamedTuple):
    """The program that a reply states."""

    text: str
    span: tuple[int, int]
    """Its start and end in the reply, in characters, without empty lines around it."""


def program(message: Message, problem: str, name: str = "") -> Program | None:
    """Return the only program of a coder's reply that defines the problem's function; None without one.

    The program is one block of Python, or the whole reply if it has no block. Blocks that show the function's use do
    not define it. An indented text without a definition is the function's body, and is appended to the problem. A
    function that does nothing does not count, nor does a program in a reply that was cut.
    """
    text = "" if message.cut else message.text
    fenced = FENCE.search(text) is not None
    if fenced:
        spans = [block.span("code") for block in _own_blocks(text)]
    else:
        scored = HELP.search(text)
        spans = [(0, scored.start() if scored else len(text))]
    spans = [trimmed(text, *span, before="\n") for span in spans]
    stated = [Program(textwrap.dedent(text[slice(*span)]), span) for span in spans]
    definition = re.compile(rf"^(?:(?:async )?def|class) +{name}\b|^{name} *=" if name else r"\bdef\b", re.MULTILINE)
    found = [each for each in stated if definition.search(each.text)]
    if not found and len(spans) == 1 and (body := text[slice(*spans[0])])[:1].isspace():
        found = [Program(f"{problem.rstrip()}\n{body}", spans[0])]
    if len({each.text for each in found}) != 1:
        return None
    parsed = statements(found[-1].text)
    if parsed is None:  # a block may hold an error; anything else may be prose
        return found[-1] if fenced and found[-1] in stated else None
    return None if _does_nothing(parsed, name) else found[-1]


def _own_blocks(text: str) -> list[re.Match[str]]:
    """Return the blocks of Python that the text itself states."""
    blocks = [block for block in [*BLOCK.finditer(text)][-MOST_BLOCKS:] if block["language"].casefold() in PYTHON]
    return [block for block in blocks if is_own(text, block.start("fence"))]


def _does_nothing(parsed: list[ast.stmt], name: str) -> bool:
    """Return whether the functions of this name only pass, state constants or raise NotImplementedError."""
    functions = [node for node in ast.walk(ast.Module(parsed, [])) if isinstance(node, ast.FunctionDef)]
    lines = [line for function in functions if name in ("", function.name) for line in function.body]
    return bool(lines) and all(
        isinstance(line, ast.Pass)
        or (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
        or (isinstance(line, ast.Raise) and "NotImplementedError" in ast.dump(line))
        for line in lines
    )


def statements(text: str) -> list[ast.stmt] | None:
    """Return the statements of a program, or None if it is not Python; it is parsed, not run."""
    with PARSING, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about "\\d", which models write
        try:
            return ast.parse(text).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # raised by the parser on untrusted text
            return None


# Tests

ASSERT = re.compile(r"(?P<lead>[ \t>*\d.)-]{0,16}(?:[\w* ]{0,40}:[ *]{0,3})?)(?P<code>`?)(?P<test>assert\b.*)")
"""A line with a test: in a list, behind a few words, or in backticks."""
MOST_TESTS = 10
LONGEST_TEST = 2000  # characters; a longer text is not a test and is slow to parse
LINES_OF_TEST = 20  # at most; a statement of several lines is parsed line by line until it is complete
MAX_PARSED = 400  # most texts of a reply that are parsed as tests
ASSERTIONS = Form(pattern=rf"[^\n]+{ANYTHING}", after="assert", unknown=False)
"""The form of at least one line with an assertion, followed by anything."""


def assertions(message: Message) -> list[str]:
    """Return a tester's tests, each an `assert` statement of one or several lines: at most ten, without duplicates."""
    text = "" if message.cut else message.text
    fenced = "\n".join(block["code"] for block in _own_blocks(text) if "assert" in block["code"])
    lines = (fenced or text).splitlines()  # prose around blocks may mention a rejected test
    tests: dict[str, None] = {}
    at = parsed = 0
    while at < len(lines) and parsed < MAX_PARSED and len(tests) < MOST_TESTS:
        candidates = _candidates(lines[at : at + LINES_OF_TEST])[: MAX_PARSED - parsed]
        length = next((n for n, test in enumerate(candidates, 1) if _is_assertion(test)), 0)
        parsed += length or len(candidates)
        if length:
            tests[candidates[length - 1].rstrip()] = None
        at += length or 1
    return list(tests)


def _candidates(lines: list[str]) -> list[str]:
    """Return the texts of one line, of two and so on that may be the test that begins in the first line."""
    line = ASSERT.match(lines[0])
    if line is None or not is_own_lead(line["lead"]):
        return []
    first = line["test"].partition("`")[0] if line["code"] else line["test"]
    return ["\n".join([first, *lines[1:n]]) for n in range(1, len(lines) + 1)]


def _is_assertion(text: str) -> bool:
    body = statements(text.rstrip()) if len(text) <= LONGEST_TEST else None
    return body is not None and len(body) == 1 and isinstance(body[0], ast.Assert)


# Opinions

REFLECTED = re.compile(
    r"(?:^[ \t]*[-*_]{3,9}[ \t]*\n\s{0,9})?^[ \t>*_#`-]{0,16}\[reflection (\d{1,6})\][ \t*_]*:?[ \t*_]*",
    re.IGNORECASE | re.MULTILINE,
)
"""Start of a review at the start of a line; elsewhere a review may mention another one."""
REFLECTIONS = Form(pattern=rf"[^\n]*{ANYTHING}", after="[reflection 1]:", unknown=False)
"""The form of reviews: free text that contains at least the beginning of the first one."""
SCORES = re.compile(r"\[\[\s{0,8}([1-5](?:,\s{0,8}[1-5]){0,9})\s{0,8}\]\]")
RANKS = re.compile(r"(?<!\[)\[\s{0,8}(\d{1,6})\s{0,8},\s{0,8}(\d{1,6})\s{0,8}\](?!\])")
BEST = re.compile(
    r"^[ \t>*_#`-]{0,16}best\b[\s*_`]{0,8}:[\s*_`]{0,8}\[?\s{0,8}(?:solution )?#?(\d{1,6})\s{0,8}(?:,|and)\s{0,8}"
    r"(?:solution )?#?(\d{1,6})",
    re.IGNORECASE | re.MULTILINE,
)


def reflections(message: Message, solutions: int) -> list[tuple[int, int]] | None:
    """Return the span of each `[reflection n]:` text in a critic's reply, n from 1; None unless each occurs once.

    Each must start a line, in any emphasis.
    """
    text = "" if message.cut else message.text
    headings = [*REFLECTED.finditer(text)]
    if sorted(int(heading[1]) for heading in headings) != [*range(1, solutions + 1)]:
        return None
    ends = [*(heading.start() for heading in headings[1:]), len(text)]
    spans = {int(heading[1]): trimmed(text, heading.end(), end) for heading, end in zip(headings, ends, strict=True)}
    return [spans[n] for n in sorted(spans)]


def scores(message: Message, judges: int) -> list[int] | None:
    """Return the helpfulness of each judge, 1 to 5, from `[[a, b, c]]`, after "Help:" if the reply has that.

    Return None without such a list, or if two differ. Lists in blocks do not count.
    """
    text = BLOCK.sub("", message.whole_text)
    *_, scored = [0, *(label.end() for label in HELP.finditer(text))]
    lists = {tuple(map(int, found.split(","))) for found in SCORES.findall(text, scored)}
    return [*lists.pop()] if [len(found) for found in lists] == [judges] else None


def ranks(message: Message, solutions: int) -> tuple[int, int] | None:
    """Return the best two solutions, best first, 0-based (`[i, j]` in the reply is 1-based); None if there are none.

    Pairs after "Best:" take precedence over others; two different pairs give None. The caller falls back on a random
    pair.
    """
    text = message.whole_text
    pairs = set(BEST.findall(text) or RANKS.findall(text))
    first, second = (int(number) - 1 for number in pairs.pop()) if len(pairs) == 1 else (0, 0)
    return (first, second) if first != second and 0 <= min(first, second) <= max(first, second) < solutions else None


# Similarity

EQUAL_FROM = 90.0
"""BLEU from which two solutions count as equal (DyLAN)."""


def bleu(text: str, reference: str) -> float:
    """Return the BLEU of a text against a reference, from 0 to 100, in lowercase; 0 if nothing matches."""
    from sacrebleu import sentence_bleu  # late: its import takes 0.1 s

    return sentence_bleu(text, [reference], lowercase=True).score


def agreeing(solutions: Sequence[str], least: float = EQUAL_FROM) -> list[int]:
    """Return the places of the largest set of solutions that are like one of them, including that one."""
    alike = [[at for at, reference in enumerate(solutions) if bleu(text, reference) >= least] for text in solutions]
    return max(alike, key=len, default=[])
