"""What the doctor found about a model, as a table, and whether all is well."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sottovoce.evaluation.views.printable import harmless

MARKS = {True: ("ok", "green"), False: ("fails", "bold red"), None: ("", "")}
FAILED = 1


def examine(name: str, dtype: str, device: str) -> int:
    """Diagnose a model and print its findings; returns the exit code, 1 where a check fails."""
    from sottovoce.models.doctor import diagnose  # late: it loads torch

    settings: dict[str, Any] = {"dtype": dtype, "device": device}  # Any: read and refused by `load`
    findings = diagnose(name, **settings)
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for finding in findings:
        mark, style = MARKS[finding.ok]
        table.add_row(finding.check, Text(mark, style), Text(harmless(finding.detail)))
    Console().print(table)
    return FAILED if any(finding.ok is False for finding in findings) else 0
