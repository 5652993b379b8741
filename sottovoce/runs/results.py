"""Results of discussions, one row each, and their table: everything that scores and comparisons need."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
FORMULA = re.compile(r"'*[=+\-@\t\r\n]")
"""The beginning of a text that a spreadsheet would compute, after any number of quotes."""


@dataclass(frozen=True)
class Result:
    """The result of one discussion: a question under one seed."""

    question: str
    """The question's id; discussions of one question under several seeds form a cluster."""
    seed: int = 0
    answer: str | None = None
    """None if it failed or abstained, or if each agent's answer counts by itself (rule `average`)."""
    abstained: bool = False
    """True if it ended with a decision that has no answer."""
    mined: bool = False
    """True if a vote that counts was mined from prose, since the reply has no mark or form."""
    score: float | None = None
    """In [0, 1]; None if there is no target or it failed."""
    target: str | None = None
    """The right answer; scores against different targets are not compared."""
    failed: bool = False
    """True if it ended without a decision."""
    outside: bool = False
    """True if it failed, and not by scheme or protocol but by a server, a file or a disk."""
    digest: str = ""
    """The sha256 of what is asked (`question_digest`); equal digests mean equal questions in two runs."""
    documents: tuple[str, ...] = ()
    """The sha256 of each text that agents were dealt."""
    measures: Mapping[str, int | float | None] = field(default_factory=dict)
    """By name: measures of a game, of retrieval, of payloads, and EM and F1; None if a measure does not apply."""
    calls: int = 0
    tokens_in: int | None = 0
    """None, like the next two, if a hosted model's server did not report it."""
    tokens_reused: int | None = 0
    """Tokens of `tokens_in` that came from the prefix cache."""
    tokens_out: int | None = 0
    flops: float | None = None
    """Approximate floating-point operations of all calls; None if a hosted model spoke."""
    seconds: float = 0.0

    @property
    def failed_wrong(self) -> float | None:
        """The score, with a failed discussion as wrong; None without a target."""
        return 0.0 if self.failed and self.target is not None else self.score

    @property
    def comparable_score(self) -> float | None:
        """The score that verdicts use: failures that scheme and protocol can cause are wrong, others are left out."""
        return None if self.failed and self.outside else self.failed_wrong

    def to_dict(self) -> dict[str, Any]:  # Any: plain JSON
        """Return the fields, with the score in which a failure is wrong after the score."""
        found = {**asdict(self), FAILED_WRONG: self.failed_wrong}
        return {name: found[name] for name in RESULT_FIELDS}


FAILED_WRONG = "score_failed_wrong"
"""The column of the score in which a failure is wrong."""
RESULT_FIELDS = [
    name for each in fields(Result) for name in (each.name, *([FAILED_WRONG] if each.name == "score" else []))
]


def table(results: Sequence[Result]) -> str:
    """Return the results as CSV, a row each; each measure has a column of its own after the others."""
    rows = [{name: as_cell(value) for name, value in {**each.to_dict(), **each.measures}.items()} for each in results]
    names = [*RESULT_FIELDS, *(name for each in results for name in each.measures)]
    columns = [name for name in dict.fromkeys(names) if name not in ("measures", "documents")]
    written = io.StringIO()
    file = csv.DictWriter(written, columns, extrasaction="ignore", lineterminator="\n")
    file.writeheader()
    file.writerows(rows)
    return written.getvalue()


def as_cell(value: object) -> object:
    """Return a value as a cell that no spreadsheet computes: a text like a formula gets a quote before it (OWASP)."""
    if isinstance(value, str) and FORMULA.match(value) and not NUMBER.fullmatch(value):
        return f"'{value}"
    return value


def of_cell(text: str) -> str:
    """Return the text from which `as_cell` made a cell.

    >>> of_cell(str(as_cell("=1+1"))), as_cell("-5")
    ('=1+1', '-5')
    """
    return text[1:] if text.startswith("'") and FORMULA.match(text) else text
