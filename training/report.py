"""What the two measuring commands share: an interval, a paired test, tables, and results kept between calls."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from math import comb, sqrt
from pathlib import Path
from typing import Any

from sottovoce.errors import choose

Result = dict[str, list[Any]]
"""What a row came to, question by question; Any: booleans, or numbers where there are any."""
WORK = Path(__file__).parent / "work"


def wilson(right: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's interval for right/n; z = 1.96 makes it one of 95 %."""
    share, spread = right / n, z * z / n
    centre = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * sqrt(share * (1 - share) / n + spread / (4 * n))
    return max(0.0, centre - half), min(1.0, centre + half)


def mcnemar(left: Sequence[bool], right: Sequence[bool]) -> float:
    """The exact two-sided p of McNemar's test: are the pairs that differ split evenly?"""
    gained = sum(b and not a for a, b in zip(left, right, strict=True))
    lost = sum(a and not b for a, b in zip(left, right, strict=True))
    tail = sum(comb(gained + lost, k) for k in range(min(gained, lost) + 1)) / (1 << (gained + lost))
    return min(1.0, 2 * tail)


def share(right: Sequence[bool]) -> str:
    """In percent."""
    return f"{sum(right) / len(right):.1%}"


def interval(right: Sequence[bool]) -> str:
    """Wilson's, in percent."""
    low, high = wilson(sum(right), len(right))
    return f"{low:.1%} to {high:.1%}"


def table(headings: str, lines: Iterable[Sequence[str]]) -> str:
    """Markdown; `headings` are joined by bars."""
    rule = "|".join(["---"] * len(headings.split(" | ")))
    return "\n".join([f"| {headings} |", f"|{rule}|", *(f"| {' | '.join(cells)} |" for cells in lines)])


def command(
    name: str,
    about: str,
    rows: Sequence[str],
    measure: Callable[[str, int, str], Result],
    tables: Callable[[dict[str, Result]], str],
) -> None:
    """Measure the rows that are named, or all; print the tables of everything measured so far."""
    shown = argparse.ArgumentDefaultsHelpFormatter
    parser = argparse.ArgumentParser(f"python -m sottovoce.training.{name}", description=about, formatter_class=shown)
    parser.add_argument("rows", nargs="*", help=f"such as {rows[0]}; all if none is named")
    parser.add_argument("-n", type=int, default=500, help="questions a row")
    parser.add_argument("--model", default="bundled", help="a model, as the command line names it")
    parser.add_argument("--results", type=Path, default=WORK / f"{name}.json", help="kept between calls")
    given = parser.parse_args()
    for row in given.rows:
        if row not in rows:
            parser.error(choose("row", row, list(rows)))
    saved = json.loads(given.results.read_text(encoding="utf-8")) if given.results.exists() else {}
    for row in given.rows or rows:
        saved[row] = measure(row, given.n, given.model)
        print(f"{row}: {sum(saved[row]['right'])} of {given.n} right", flush=True)
        given.results.parent.mkdir(parents=True, exist_ok=True)
        given.results.write_text(json.dumps(saved), encoding="utf-8")
    print(f"\n{tables(saved)}")
