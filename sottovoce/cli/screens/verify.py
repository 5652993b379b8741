"""The command `runs verify`: checks of a saved run, with a line for each finding."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sottovoce.core.text import counted, one_line
from sottovoce.runs import run_directory
from sottovoce.runs.allowed import NO_TRUST, Trust

if TYPE_CHECKING:
    from sottovoce.verify.findings import Verified


def show_verification(
    name: str,
    anew: int,
    seed: int,
    questions: Path | None = None,
    table: Path | None = None,
    card: Path | None = None,
    trust: Trust = NO_TRUST,
) -> int:
    """Verify a run, re-run `anew` of its discussions, and print the findings; return 1 if there are any, else 0.

    Raises:
        RecordError: there is no such run, it is damaged, or a file to compare with cannot be read.
        UsageError: the questions' file cannot be read, or the run names what the command line does not allow.
    """
    from sottovoce.runs.read import load_run  # late: torch and langgraph take seconds
    from sottovoce.verify.checks import Wanted, verify

    verified = verify(load_run(run_directory.folder_of(name)), Wanted(anew, seed, questions, table, card, trust))
    for line in lines(verified):
        typer.echo(one_line(line))
    return 1 if verified.findings else 0


def lines(verified: Verified) -> Iterator[str]:
    """Yield notes, findings, and the summary."""
    yield from (f"note: {each}" for each in verified.notes)
    yield from (f"FINDING {each}" for each in verified.findings)
    looked = f"{counted(verified.discussions, 'discussion')}, {counted(verified.messages, 'message')}"
    yield f"verified: {looked}, {verified.anew} re-run; {counted(len(verified.findings), 'finding')}"
