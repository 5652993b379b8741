"""Parsers for the replies of coders, testers, judges and rankers in CodeGen, and the similarity of solutions.

Nothing here runs a program; `problems.py` does. The rules follow Ohav/DyLAN's code (schemes of arXiv 2502.05986).
Similarity is BLEU against one reference, as sacrebleu's `sentence_bleu` computes it (which requires lxml): tokens are
WMT's (mteval-13a) in lowercase, n-grams have up to four tokens or as many as a shorter text, and orders without a match
are smoothed exponentially: half a match, then a quarter, and so on.
"""

from __future__ import annotations

import ast
import math
import re
import textwrap
import threading
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from sottovoce.core.response_format import Form
from sottovoce.environments import trimmed

BLOCK = re.compile(
    r"^[ \t>]*(?P<fence>`{3,}|~{3,})[ \t]*(?P<language>[\w+-]*)[^\n`]*\n(?P<code>.*?)"
    r"(?:^[ \t>]*(?P=fence)|(?=^[ \t*_#>-]{0,8}help:)|\Z)",
    re.DOTALL | re.MULTILINE | re.IGNORECASE,
)
"""A fenced block. Its lines may contain fences except at their start, and the last block of a truncated reply has no
end. The line of the scores, which is written even when tokens run out, also ends it."""
HELP = re.compile(r"^[ \t*_#>-]{0,8}help:", re.IGNORECASE | re.MULTILINE)
PYTHON = ("python", "py", "python3", "py3")
DEFINES = re.compile(r"\bdef\b")
IMPLEMENTED = "impl]"
ANYWHERE = re.compile(r"\[reflection (\d{1,6})\][ \t*_]*:?[ \t*_]*", re.IGNORECASE)
REFLECTED = re.compile(
    rf"(?:^[ \t]*[-*_]{{3,9}}[ \t]*\n\s{{0,9}})?^[ \t>*_#`-]{{0,16}}{ANYWHERE.pattern}", re.IGNORECASE | re.MULTILINE
)
"""Start of a review at the start of a line; elsewhere a review may mention another one."""
ASSERT = re.compile(r"(`?)\bassert\b.*")
MOST_TESTS = 10
LONGEST_TEST = 2000  # characters; a longer text is not a test and is slow to parse
LINES_OF_TEST = 20  # at most; a statement of several lines is parsed line by line until it is complete
MAX_PARSED = 400  # most texts of a reply that are parsed as tests
SCORES = re.compile(r"\[\[([^\[\]]*)\]\]")
RANKS = re.compile(r"(?<!\[)\[\s*(\d+)\s*,\s*(\d+)\s*\](?!\])")
BEST = re.compile(
    r"\bbest\b[\s*_`]{0,8}:[\s*_`]{0,8}\[?\s{0,8}(?:solution )?#?(\d+)\s{0,8}(?:,|and)\s{0,8}(?:solution )?#?(\d+)",
    re.IGNORECASE,
)
ANYTHING = r"(?:\n(?s:.*))?"
CODE = r"\n(?:[ \t]*(?:(?:[^` \t\n]|``?[^`\n])[^\n]*)?\n)+[ \t]*```[^\n]*"
"""A code block after its opening: lines that do not begin with a fence, and the fence."""
ASSERTIONS = Form(pattern=rf"[^\n]+{ANYTHING}", after="assert", unknown=False)
"""The form of at least one line with an assertion, followed by anything."""
REFLECTIONS = Form(pattern=rf"[^\n]*{ANYTHING}", after="[reflection 1]:", unknown=False)
"""The form of reviews: free text that contains at least the beginning of the first one."""
PARSING = threading.Lock()
"""Lock for parsing: threads that parse at once raise SystemError in Python 3.11 (python/cpython#106905)."""
LOWEST, HIGHEST = 1, 5
"""Bounds of the score that a coder gives a judge for its helpfulness."""


def code_form(judges: int = 0) -> Form:
    """Return the form of a Python block after free reasoning; for coders that score `judges`, only that of the scores.

    Only one part of a reply can have a form, and monitors read the scores.
    """
    if judges:
        listed = ", ".join([f"[{LOWEST}-{HIGHEST}]"] * judges)
        return Form(pattern=rf"\[\[{listed}\]\]", after="Help:", unknown=False)
    return Form(pattern=f"{CODE}{ANYTHING}", after="```python", unknown=False)


def code(reply: str, problem: str) -> str:
    """Return a coder's solution (see `where`); a block that is indented as part of a list is dedented.

    If it defines no function, it is the body of the problem's function and is appended to the problem.
    """
    text = reply[slice(*solution_span(reply))].strip("\n")
    return textwrap.dedent(text) if DEFINES.search(text) else f"{problem.rstrip()}\n{text}"


def solution_span(reply: str) -> tuple[int, int]:
    """Return the start and end of the solution in a coder's reply, in characters.

    It is the last Python block that defines a function, since examples of its use may follow; else the last Python
    block; else the text after `impl]`; else a block without a language; else the whole reply.
    """
    fenced = list(BLOCK.finditer(reply))
    python = [block for block in fenced if block["language"].casefold() in PYTHON]
    blocks = python or [block for block in fenced if not block["language"] and IMPLEMENTED not in reply]
    if blocks:
        return _inside(next((block for block in reversed(blocks) if DEFINES.search(block["code"])), blocks[-1]))
    start = reply.rfind(IMPLEMENTED)
    begin = 0 if start < 0 else start + len(IMPLEMENTED)
    scored = HELP.search(reply, begin)
    return begin + (start >= 0 and reply.startswith(":", begin)), scored.start() if scored else len(reply)


def trimmed_solution(reply: str) -> tuple[int, int]:
    """Return the span of the solution without empty lines around it; its first line may be indented."""
    start, end = solution_span(reply)
    inside = reply[start:end]
    return start + len(inside) - len(inside.lstrip("\n")), start + len(inside.rstrip())


def _inside(block: re.Match[str]) -> tuple[int, int]:
    """Return the span of a block's code; a fence at the end of a line of code, as in "return 1```", also ends it."""
    start, end = block.span("code")
    if block[0].endswith(block["fence"]) and end < block.end():
        return start, end
    ends = islice((fence.start() for fence in re.finditer(re.escape(block["fence"]), block["code"])), LINES_OF_TEST)
    return start, next((start + at for at in ends if statements(textwrap.dedent(block["code"][:at]))), end)


def assertions(reply: str) -> list[str]:
    """Return a tester's tests, each an `assert` statement of one or several lines: at most ten, without duplicates."""
    blocks = (block["code"] for block in BLOCK.finditer(reply) if block["fence"][0] == "`")
    fenced = "\n".join(code for code in blocks if ASSERT.search(code))
    lines, at, tried = (fenced or reply).splitlines(), 0, 0  # prose around blocks may mention a rejected test
    found: dict[str, None] = {}
    while at < len(lines) and tried < MAX_PARSED and len(found) < MOST_TESTS:
        for text in _statements_from(lines, at):
            tried += 1
            body = statements(text)
            if body is not None and len(body) == 1 and isinstance(body[0], ast.Assert):
                found[text] = None
                at += text.count("\n")
                break
        at += 1
    return list(found)


def _statements_from(lines: Sequence[str], at: int) -> Iterator[str]:
    """Yield candidates for an `assert` statement that starts in a line: the rest of the line, then with more lines."""
    match = ASSERT.search(lines[at])
    if match is None:
        return
    text = match[0].lstrip("`")
    if match[1]:  # in backticks, so prose follows
        yield text.partition("`")[0].rstrip()
        return
    if len(text) > LONGEST_TEST:
        return
    yield text.rstrip().rstrip("`").rstrip()
    for line in islice(lines, at + 1, at + LINES_OF_TEST):
        text = f"{text}\n{line}"
        if len(text) > LONGEST_TEST:
            return
        yield text.rstrip()


def statements(text: str) -> list[ast.stmt] | None:
    """Return the statements of a program, or None if it is not Python; it is parsed, not run."""
    with PARSING, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about "\\d", which models write
        try:
            return ast.parse(text).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # raised by the parser on untrusted text
            return None


def reflections(reply: str, solutions: int) -> list[tuple[int, int]] | None:
    """Return the span of each `[reflection n]:` text in a critic's reply, n from 1; None unless each occurs once.

    Each must start a line, in any emphasis; if that does not hold, they may be anywhere.
    """
    wanted = [*range(1, solutions + 1)]
    headed = ([*pattern.finditer(reply)] for pattern in (REFLECTED, ANYWHERE))
    headings = next((heads for heads in headed if sorted(int(heading[1]) for heading in heads) == wanted), None)
    if headings is None:
        return None
    ends = [*(heading.start() for heading in headings[1:]), len(reply)]
    spans = {int(heading[1]): trimmed(reply, heading.end(), end) for heading, end in zip(headings, ends, strict=True)}
    return [spans[n] for n in sorted(spans)]


def scores(reply: str, judges: int) -> list[int] | None:
    """Return the helpfulness of each judge, 1 to 5, from the last `[[a, b, c]]`; None if that list is invalid.

    Lists in the solution are ignored unless there are no others.
    """
    start, end = solution_span(reply)
    lists = SCORES.findall(reply[:start] + reply[end:]) or SCORES.findall(reply)
    numbers = [part.strip() for part in lists[-1].split(",")] if lists else []
    if len(numbers) != judges or not all(re.fullmatch(f"[{LOWEST}-{HIGHEST}]", part) for part in numbers):
        return None
    return [int(part) for part in numbers]


def ranks(reply: str, solutions: int) -> tuple[int, int] | None:
    """Return the best two solutions, best first, 0-based (`[i, j]` in the reply is 1-based); None if there are none.

    The last pair after "Best:" counts, else the last pair of all. The caller falls back on a random pair.
    """
    if not (pairs := BEST.findall(reply) or RANKS.findall(reply)):
        return None
    first, second = (int(number) - 1 for number in pairs[-1])
    if first == second or not all(0 <= number < solutions for number in (first, second)):
        return None
    return first, second


ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
SPACED = (
    (re.compile(r"([{-~\[-` -&(-+:-@/])"), r" \1 "),  # signs, except the four in numbers and words
    (re.compile(r"([^0-9])([.,])"), r"\1 \2 "),
    (re.compile(r"([.,])([^0-9])"), r" \1 \2"),
    (re.compile(r"([0-9])(-)"), r"\1 \2 "),
)
LONGEST_GRAM = 4
EQUAL_FROM = 90.0
"""BLEU from which two solutions count as equal (DyLAN)."""


def tokens(text: str) -> list[str]:
    """Return a text's tokens."""
    text = text.rstrip().lower().replace("-\n", "").replace("\n", " ")
    for entity, sign in ENTITIES:
        text = text.replace(entity, sign)
    text = f" {text} "
    for pattern, spaced in SPACED:
        text = pattern.sub(spaced, text)
    return text.split()


def bleu(text: str, reference: str) -> float:
    """Return the BLEU of a text against a reference, from 0 to 100; 0 if nothing matches."""
    said, meant = tokens(text), tokens(reference)
    orders = range(1, min(len(said), LONGEST_GRAM) + 1)
    matches = [(_ngrams(said, n) & _ngrams(meant, n)).total() for n in orders]
    if not any(matches):
        return 0.0
    logs, halved = 0.0, 1.0
    for n, matched in zip(orders, matches, strict=True):
        halved *= 1 if matched else 2
        logs += math.log((matched or 1 / halved) / (len(said) - n + 1))
    brevity = min(0.0, 1 - len(meant) / len(said))
    return 100 * math.exp(brevity + logs / len(orders))


def _ngrams(words: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def agreeing(solutions: Sequence[str], least: float = EQUAL_FROM) -> list[int]:
    """Return the places of the largest set of solutions that are like one of them, including that one."""
    alike = [[at for at, reference in enumerate(solutions) if bleu(text, reference) >= least] for text in solutions]
    return max(alike, key=len, default=[])
