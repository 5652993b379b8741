"""The command `runs report`: a page about saved runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from sottovoce.core.outputs import OutputFile
from sottovoce.core.text import counted, one_line
from sottovoce.runs.allowed import NO_TRUST, Trust


def show_report(
    names: Sequence[str], html: Path, attention: int | None, trust: Trust = NO_TRUST, *, force: bool = False
) -> None:
    """Write the page, with what unfinished runs have so far, and with the attention of a layer if one is named.

    Raises:
        RecordError: there is no such run, or it is damaged.
        UsageError: no discussion has ended yet, the file cannot be written, the extra `eval` is not installed, or the
            attention needs models that the command line does not allow.
    """
    file = OutputFile(html, "--html", force=force, endings=(".html", ".htm"))
    from sottovoce.core.sizes import amount
    from sottovoce.report.report import report
    from sottovoce.report.sources import gathered  # late: matplotlib takes seconds
    from sottovoce.runs.start import settings_of

    found = gathered(names)
    for name, run in found.runs.items() if attention is not None else ():
        trust.check_paths(settings_of(run), f"run {name!r}", run.folder and run.folder.parent)
    file.write(report(found, attention))
    if found.unfinished:
        typer.echo(one_line(found.unfinished))
    told = f"{counted(len(found.runs), 'run')}, {counted(found.ended[0], 'discussion')}"
    typer.echo(f"report of {told}: {one_line(str(html))} ({amount(html.stat().st_size)})")
