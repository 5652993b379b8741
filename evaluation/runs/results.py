"""What discussions came to, a row each: all that scores, comparisons and tables need to know of them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
FORMULA = re.compile(r"'*[=+\-@\t\r\n]")
"""How a text begins that a spreadsheet would compute, behind as many quotes as one likes."""


@dataclass(frozen=True)
class Result:
    """One discussion: a question under one seed."""

    question: str
    """Its id; discussions of one question under several seeds are a cluster."""
    seed: int = 0
    answer: str | None = None
    """None where it failed or abstained, and where each agent's answer counts by itself (rule `average`)."""
    abstained: bool = False
    """Whether it ended, and without an answer."""
    mined: bool = False
    """True where a vote that counts was mined from prose, for want of a mark or a form."""
    score: float | None = None
    """In [0, 1]; None without a target, or where it failed."""
    target: str | None = None
    """What it was scored against; scores against different targets are not compared."""
    failed: bool = False
    """Whether it ended without a decision."""
    outside: bool = False
    """Whether what ended it lies outside of scheme and protocol: a server, a file, a disk."""
    digest: str = ""
    """The sha256 of what is asked (`question_digest`): by it questions of two runs are the same."""
    documents: tuple[str, ...] = ()
    """The sha256 of each text that agents were dealt."""
    measures: Mapping[str, int | float | None] = field(default_factory=dict)
    """What a world measures of it, and EM and F1 of a few words, by name; None where a measure does not apply."""
    calls: int = 0
    tokens_in: int | None = 0
    """None, as the next two, where a hosted model's server did not tell."""
    tokens_reused: int | None = 0
    """Of those read: taken from the prefix cache, not computed again."""
    tokens_out: int | None = 0
    flops: float | None = None
    """Floating-point operations of all calls, about; None where a hosted model spoke."""
    seconds: float = 0.0

    @property
    def failed_wrong(self) -> float | None:
        """The score, where a failed discussion is wrong; None without a target."""
        return 0.0 if self.failed and self.target is not None else self.score

    @property
    def judged(self) -> float | None:
        """The score that verdicts use: failures that scheme and protocol can cause are wrong, others are left out."""
        return None if self.failed and self.outside else self.failed_wrong

    def to_dict(self) -> dict[str, Any]:  # Any: plain JSON
        """Return the fields, with the score in which a failure is wrong after the score."""
        found = {**asdict(self), FAILED_WRONG: self.failed_wrong}
        return {name: found[name] for name in OF_RESULT}


FAILED_WRONG = "score_failed_wrong"
"""The column of the score in which a failure is wrong."""
OF_RESULT = [name for each in fields(Result) for name in (each.name, *([FAILED_WRONG] if each.name == "score" else []))]


def table(results: Sequence[Result]) -> str:
    """As CSV, a row each; what a world measures stands in columns of its own after the others."""
    rows = [{name: as_cell(value) for name, value in {**each.to_dict(), **each.measures}.items()} for each in results]
    names = [*OF_RESULT, *(name for each in results for name in each.measures)]
    columns = [name for name in dict.fromkeys(names) if name not in ("measures", "documents")]
    written = io.StringIO()
    file = csv.DictWriter(written, columns, extrasaction="ignore", lineterminator="\n")
    file.writeheader()
    file.writerows(rows)
    return written.getvalue()


def as_cell(value: object) -> object:
    """Return a value as a cell that no spreadsheet computes: a quote before what begins like a formula (OWASP)."""
    if isinstance(value, str) and FORMULA.match(value) and not NUMBER.fullmatch(value):
        return f"'{value}"
    return value


def of_cell(text: str) -> str:
    """Return the text that `as_cell` made a cell of.

    >>> of_cell(str(as_cell("=1+1"))), as_cell("-5")
    ('=1+1', '-5')
    """
    return text[1:] if text.startswith("'") and FORMULA.match(text) else text
