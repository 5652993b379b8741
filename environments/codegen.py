"""CodeGen: what is read in the replies of coders, testers, judges and rankers, and how solutions are counted.

Nothing here runs a program; `trying.py` has it done. Follows Ohav/DyLAN's code (schemes of arXiv 2502.05986).
"""

from __future__ import annotations

import ast
import math
import re
import threading
import warnings
from collections.abc import Iterator, Sequence

from sottovoce.errors import UsageError

BLOCK = re.compile(r"```(?:python|py)3?[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)
"""A block of Python; the last one may lack its end where a reply was cut off."""
IMPLEMENTED = "impl]"
REFLECTED = re.compile(r"\[reflection (\d{1,6})\]:?", re.IGNORECASE)
ASSERT = re.compile(r"\bassert\b.*")
MOST_TESTS = 10
LONGEST_TEST = 2000  # characters; a longer line is no test, and takes long to read
SCORES = re.compile(r"\[\[([^\[\]]*)\]\]")
RANKS = re.compile(r"(?<!\[)\[\s*(\d+)\s*,\s*(\d+)\s*\](?!\])")
PARSING = threading.Lock()
"""Held while a text is parsed: threads that parse at once raise SystemError in Python 3.11 (python/cpython#106905)."""
LOWEST, HIGHEST = 1, 5
"""Of a score that a coder gives a judge for how helpful it was."""


def code(reply: str, problem: str) -> str:
    """A coder's solution: its last block of Python, else what follows `impl]`, else all of it.

    Where it defines no function, it is taken as the body of the one that the problem begins, and follows that.
    """
    found = reply[slice(*where(reply))].strip("\n")
    return found if re.search(r"\bdef\b", found) else f"{problem.rstrip()}\n{found}"


def where(reply: str) -> tuple[int, int]:
    """Where in a coder's reply its solution stands: begin and end, in characters."""
    if blocks := list(BLOCK.finditer(reply)):
        return blocks[-1].span(1)
    start = reply.rfind(IMPLEMENTED)
    begin = 0 if start < 0 else start + len(IMPLEMENTED)
    return begin + (start >= 0 and reply.startswith(":", begin)), len(reply)


def assertions(reply: str) -> list[str]:
    """A tester's tests: each a statement `assert ...` in a line of its own; at most ten, none twice."""
    return list(dict.fromkeys(asserted(reply)))[:MOST_TESTS]


def asserted(reply: str) -> Iterator[str]:
    """The statements in lines that have one, without what stands before or encloses them."""
    for line in reply.splitlines():
        found = ASSERT.search(line)
        text = found[0].rstrip().rstrip("`").rstrip() if found else ""
        if text and len(text) <= LONGEST_TEST and is_assert(text):
            yield text


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
    """Where in a critic's reply each `[reflection n]:` has its text, n from 1; None unless each is there once."""
    found = list(REFLECTED.finditer(reply))
    if sorted(int(each[1]) for each in found) != [*range(1, solutions + 1)]:
        return None
    ends = [*(each.start() for each in found[1:]), len(reply)]
    spans = {int(each[1]): trimmed(reply, each.end(), end) for each, end in zip(found, ends, strict=True)}
    return [spans[n] for n in sorted(spans)]


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """A span without the spaces and line ends around it."""
    inside = text[start:end]
    begin = start + len(inside) - len(inside.lstrip())
    return begin, max(begin, start + len(inside.rstrip()))


def scores(reply: str, judges: int) -> list[int] | None:
    """How helpful each judge was, from 1 to 5, as `[[a, b, c]]` says; None where the last such list is none of that."""
    found = SCORES.findall(reply)
    each = [part.strip() for part in found[-1].split(",")] if found else []
    if len(each) != judges or not all(re.fullmatch(f"[{LOWEST}-{HIGHEST}]", part) for part in each):
        return None
    return [int(part) for part in each]


def ranks(reply: str, solutions: int) -> tuple[int, int] | None:
    """The best two solutions, the best first, counted from 0 where `[i, j]` counts from 1; None where it names none.

    The last pair counts. Whoever asked falls back on a random one.
    """
    if not (found := RANKS.findall(reply)):
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
