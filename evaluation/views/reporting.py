"""The command `report`: a page about kept runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from sottovoce.evaluation.views.printable import counted, one_line
from sottovoce.outputs import OutputFile


def show_report(names: Sequence[str], html: Path, attention: int | None, *, force: bool = False) -> None:
    """Write the page; of unfinished runs what is there, and the attention of a layer if one is named.

    Raises:
        RecordError: there is no such run, or it is damaged.
        UsageError: no discussion has ended yet, the file cannot be written, or the extra `eval` is not installed.
    """
    file = OutputFile(html, "--html", force=force, endings=(".html", ".htm"))
    from sottovoce.evaluation.report.gathered import gathered  # late: matplotlib takes seconds
    from sottovoce.evaluation.report.report import report
    from sottovoce.sizes import amount

    found = gathered(names)
    file.write(report(found, attention))
    if found.unfinished:
        typer.echo(one_line(found.unfinished))
    told = f"{counted(len(found.runs), 'run')}, {counted(found.held[0], 'discussion')}"
    typer.echo(f"report of {told}: {one_line(str(html))} ({amount(html.stat().st_size)})")
