"""Results of discussions, one row each, and their table: all that comparisons, cards and exports are made of."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from statistics import fmean

from sottovoce.core.any_types import JSON
from sottovoce.core.text import counted, figure, one_line

Scores = dict[tuple[str, int], float]
"""Scores by question and seed."""
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
    """By name: of a game, of retrieval, of payloads, and EM, F1 and named; None if a measure does not apply."""
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

    def to_dict(self) -> JSON:
        """Return the fields; after the score comes the one that counts a failure as wrong."""
        row: JSON = {}
        for each in fields(self):
            row[each.name] = getattr(self, each.name)
            if each.name == "score":
                row["score_failed_wrong"] = self.failed_wrong
        return row


class Results(list[Result]):
    """The results of discussions, such as those of a run: a table with a row for each."""

    def scores(self, column: str = "score") -> Scores:
        """Return the known values of `score`, `failed_wrong` or `comparable_score`, by question and seed."""
        values = ((result.question, result.seed, getattr(result, column)) for result in self)
        return {(question, seed): value for question, seed, value in values if value is not None}

    @property
    def measures(self) -> dict[str, Scores]:
        """The known values of each measure, in order of first appearance; {} if a measure applies to none."""
        columns: dict[str, Scores] = {}
        for result in self:
            for name, value in result.measures.items():
                column = columns.setdefault(name, {})
                column |= {} if value is None else {(result.question, result.seed): value}
        return columns

    @property
    def mean_line(self) -> str:
        """The means of all measures in a line: "success 0.6, precision 0.75 (of 16 games), turns 12.4"."""
        means, most = [], max(map(len, self.measures.values()), default=0)
        for name, values in self.measures.items():
            fewer = f" (of {counted(len(values), 'game')})" if len(values) < most else ""
            mean = f"{figure(fmean(values.values()))}{fewer}" if values else "of no game"
            means.append(f"{one_line(name)} {mean}")
        return ", ".join(means)

    def to_csv(self) -> str:
        """Return a row for each result; each measure has a column of its own after the others."""
        columns = dict.fromkeys([*Result("").to_dict(), *self.measures])
        written = io.StringIO()
        shown = [name for name in columns if name not in ("measures", "documents")]
        file = csv.DictWriter(written, shown, extrasaction="ignore", lineterminator="\n")
        file.writeheader()
        for result in self:
            row = {**result.to_dict(), **result.measures}
            file.writerow({name: as_cell(value) for name, value in row.items()})
        return written.getvalue()


def measures_line(measures: Mapping[str, float | None]) -> str:
    """Return the measures of one discussion in a line, without those that do not apply."""
    return ", ".join(f"{one_line(name)} {figure(value)}" for name, value in measures.items() if value is not None)


def as_cell(value: object) -> object:
    """Return a value as a cell that no spreadsheet computes: a text like a formula gets a quote before it (OWASP)."""
    if isinstance(value, str) and FORMULA.match(value) and not NUMBER.fullmatch(value):
        return f"'{value}"
    return value
