"""Results: one row for each discussion, their table, and the card of a run.

A card is one page of JSON with the run's manifest, digests and results, sealed by a digest of its own. Publish it with
the run's figures; `runs verify RUN --card FILE` checks whether a card belongs to a run.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from statistics import fmean
from typing import TYPE_CHECKING, Any

from sottovoce.core.errors import RecordError, command
from sottovoce.core.files import bytes_of
from sottovoce.nodes.state import JSON
from sottovoce.runs.log import LOG

if TYPE_CHECKING:
    from sottovoce.runs.run import Run

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


CARD_FORMAT = "sottovoce.card"
CARD_VERSION = 2
SEAL = "sha256"
"""The field with the digest of all others."""


def card(run: Run) -> JSON:
    """Return the card of a saved run.

    Raises:
        RecordError: the run is not over, so its figures could still change.
    """
    going = [record for record in run.records.values() if record.status not in ("done", "failed")]
    if going:
        raise RecordError(
            f"run {str(run.folder)!r} has {len(going)} discussions that are not over; "
            f"a card needs a run that is; continue it with {command('runs', 'resume', str(run.folder))}"
        )
    counts, head = run.counts, run.manifest.model_dump(mode="json", exclude={"format", "version"})
    whole = [each.failed_wrong for each in run.results() if each.failed_wrong is not None]
    made: JSON = {
        "format": CARD_FORMAT,
        "version": CARD_VERSION,
        **head,
        "counts": counts.model_dump(),
        "accuracy": counts.score / counts.scored if counts.scored else None,
        "accuracy_failed_wrong": fmean(whole) if whole else None,
        "cost": run.cost.model_dump(),
        "nbytes": run.nbytes,
        "log": _log_digest(run),
    }
    return {**made, SEAL: seal(made)}


def seal(card: JSON) -> str:
    """Return the sha256 of a card's canonical JSON without its seal, in hexadecimal."""
    told = {name: value for name, value in card.items() if name != SEAL}
    return hashlib.sha256(json.dumps(told, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _log_digest(run: Run) -> str:
    assert run.folder is not None, "read from a folder"
    return hashlib.sha256(bytes_of(run.folder / LOG)).hexdigest()
