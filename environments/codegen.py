"""Readers of the replies of coders, testers, judges and rankers in CodeGen, and pass@k.

Nothing here runs a program; `trying.py` has it done. Follows Ohav/DyLAN's code (schemes of arXiv 2502.05986).
"""

from __future__ import annotations

import ast
import math
import re
import textwrap
import threading
import warnings
from collections.abc import Iterator, Sequence
from itertools import islice

from sottovoce.errors import UsageError

BLOCK = re.compile(
    r"^[ \t>]*(?P<fence>`{3,}|~{3,})[ \t]*(?P<language>[\w+-]*)[^\n`]*\n(?P<code>.*?)"
    r"(?:^[ \t>]*(?P=fence)|(?=^[ \t*_#>-]{0,8}help:)|\Z)",
    re.DOTALL | re.MULTILINE | re.IGNORECASE,
)
"""A fenced block, in whose lines fences may stand anywhere but at the beginning; a cut reply's last one has no end.
The line of the scores, which is written even where tokens run out, ends it too."""
HELP = re.compile(r"^[ \t*_#>-]{0,8}help:", re.IGNORECASE | re.MULTILINE)
PYTHON = ("python", "py", "python3", "py3")
DEFINES = re.compile(r"\bdef\b")
IMPLEMENTED = "impl]"
ANYWHERE = re.compile(r"\[reflection (\d{1,6})\][ \t*_]*:?[ \t*_]*", re.IGNORECASE)
REFLECTED = re.compile(
    rf"(?:^[ \t]*[-*_]{{3,9}}[ \t]*\n\s{{0,9}})?^[ \t>*_#`-]{{0,16}}{ANYWHERE.pattern}", re.IGNORECASE | re.MULTILINE
)
"""The beginning of a review, and of its line; elsewhere a review may name another."""
ASSERT = re.compile(r"(`?)\bassert\b.*")
MOST_TESTS = 10
LONGEST_TEST = 2000  # characters; a longer text is no test, and takes long to read
LINES_OF_TEST = 20  # at most; a statement of several lines is read line by line until it is whole
TRIED = 400  # texts of a reply that may be tests
SCORES = re.compile(r"\[\[([^\[\]]*)\]\]")
RANKS = re.compile(r"(?<!\[)\[\s*(\d+)\s*,\s*(\d+)\s*\](?!\])")
BEST = re.compile(
    r"\bbest\b[\s*_`]{0,8}:[\s*_`]{0,8}\[?\s{0,8}(?:solution )?#?(\d+)\s{0,8}(?:,|and)\s{0,8}(?:solution )?#?(\d+)",
    re.IGNORECASE,
)
"""The line that a ranker is asked for."""
PARSING = threading.Lock()
"""Held while a text is parsed: threads that parse at once raise SystemError in Python 3.11 (python/cpython#106905)."""
LOWEST, HIGHEST = 1, 5
"""Of a score that a coder gives a judge for how helpful it was."""


def code(reply: str, problem: str) -> str:
    """Return a coder's solution: see `where`; a block that is indented as part of a list is set back.

    Where it defines no function, it is taken as the body of the one that the problem begins, and follows that.
    """
    found = reply[slice(*where(reply))].strip("\n")
    return textwrap.dedent(found) if DEFINES.search(found) else f"{problem.rstrip()}\n{found}"


def where(reply: str) -> tuple[int, int]:
    """Return where in a coder's reply its solution stands: begin and end, in characters.

    It is the last block of Python that defines a function, since examples of its use may follow; else the last block
    of Python; else the text behind `impl]`; else a block of no language; else all of it.
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


def _inside(block: re.Match[str]) -> tuple[int, int]:
    """Return the span of a block's code; a fence that closes it behind code, as in "return 1```", ends it too."""
    start, end = block.span("code")
    if block[0].endswith(block["fence"]) and end < block.end():
        return start, end
    ends = islice((found.start() for found in re.finditer(re.escape(block["fence"]), block["code"])), LINES_OF_TEST)
    return start, next((start + at for at in ends if statements(textwrap.dedent(block["code"][:at]))), end)


def assertions(reply: str) -> list[str]:
    """Return a tester's tests, each a statement `assert ...`; at most ten, none twice."""
    return list(dict.fromkeys(asserted(reply)))[:MOST_TESTS]


def asserted(reply: str) -> Iterator[str]:
    """Yield the statements, of one line or several, without what stands before or encloses them."""
    blocks = (block["code"] for block in BLOCK.finditer(reply) if block["fence"][0] == "`")
    fenced = "\n".join(code for code in blocks if ASSERT.search(code))
    lines, at, tried = (fenced or reply).splitlines(), 0, 0  # prose around blocks may name a test that is given up
    while at < len(lines) and tried < TRIED:
        for text in _statements_from(lines, at):
            tried += 1
            if is_assert(text):
                yield text
                at += text.count("\n")
                break
        at += 1


def _statements_from(lines: Sequence[str], at: int) -> Iterator[str]:
    """Yield what may be one statement `assert ...` that begins in a line: its end, and so many of the next lines."""
    found = ASSERT.search(lines[at])
    if found is None:
        return
    text = found[0].lstrip("`")
    if found[1]:  # in backticks: prose follows
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


def is_assert(text: str) -> bool:
    """Whether a text is one statement `assert ...` of Python; it is read, not run."""
    body = statements(text)
    return body is not None and len(body) == 1 and isinstance(body[0], ast.Assert)


def statements(text: str) -> list[ast.stmt] | None:
    """The statements of a program, or None where it is no Python; it is read, not run."""
    with PARSING, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of "\\d": the author is a model
        try:
            return ast.parse(text).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # the parser's own, on a stranger's text
            return None


def reflections(reply: str, solutions: int) -> list[tuple[int, int]] | None:
    """Return where in a critic's reply each `[reflection n]:` has its text, n from 1; None unless each is there once.

    Each begins a line, in any emphasis; where they do not, they may stand anywhere.
    """
    wanted = [*range(1, solutions + 1)]
    headed = ([*pattern.finditer(reply)] for pattern in (REFLECTED, ANYWHERE))
    found = next((heads for heads in headed if sorted(int(each[1]) for each in heads) == wanted), None)
    if found is None:
        return None
    ends = [*(each.start() for each in found[1:]), len(reply)]
    spans = {int(each[1]): trimmed(reply, each.end(), end) for each, end in zip(found, ends, strict=True)}
    return [spans[n] for n in sorted(spans)]


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a span without the spaces and line ends around it."""
    inside = text[start:end]
    begin = start + len(inside) - len(inside.lstrip())
    return begin, max(begin, start + len(inside.rstrip()))


def scores(reply: str, judges: int) -> list[int] | None:
    """Return how helpful each judge was, from 1 to 5, as `[[a, b, c]]` says; None where the last list says otherwise.

    Lists within the solution do not count.
    """
    start, end = where(reply)
    found = SCORES.findall(reply[:start] + reply[end:]) or SCORES.findall(reply)
    each = [part.strip() for part in found[-1].split(",")] if found else []
    if len(each) != judges or not all(re.fullmatch(f"[{LOWEST}-{HIGHEST}]", part) for part in each):
        return None
    return [int(part) for part in each]


def ranks(reply: str, solutions: int) -> tuple[int, int] | None:
    """Return the best two solutions, the best first, counted from 0 where `[i, j]` counts from 1; None without any.

    The last pair behind "Best:" counts, else the last pair of all. The caller falls back on a random one.
    """
    if not (found := BEST.findall(reply) or RANKS.findall(reply)):
        return None
    first, second = (int(number) - 1 for number in found[-1])
    if first == second or not all(0 <= number < solutions for number in (first, second)):
        return None
    return first, second


def pass_at_k(results: Sequence[Sequence[bool]], k: int = 1) -> float:
    """The share of problems that one of k solutions solves, between 0 and 1, without bias; pass@1 unless said.

    `results` has a row for each problem: which of its solutions passed. Chen et al. 2021, arXiv 2107.03374, eq. 1.

    Raises:
        UsageError: there is no problem, k is below 1, or a problem has fewer than k solutions.
    """
    fewest = min(map(len, results), default=0)
    if not 1 <= k <= fewest:
        raise UsageError(
            f"pass@{k} of {len(results)} problems with at least {fewest} solutions; expected 1 to {fewest}"
        )
    missed = (math.comb(len(row) - sum(row), k) / math.comb(len(row), k) for row in results)
    return 1 - math.fsum(missed) / len(results)
