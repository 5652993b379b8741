"""The command `runs compare RUN --matched`: a run beside a single agent, and beside self-consistency at the run's cost.

Nothing here imports torch or langgraph before runs are read: the command line reads the options.
"""

from __future__ import annotations

from collections.abc import Sequence

import typer

from sottovoce.core.errors import StoppedError, UsageError
from sottovoce.core.text import one_line
from sottovoce.report.tables import show
from sottovoce.runs import run_directory
from sottovoce.runs.allowed import NO_TRUST, Trust
from sottovoce.runs.budget import Currency


def compare_matched(names: Sequence[str], by: Currency, trust: Trust = NO_TRUST) -> None:
    """Run the unfinished baselines of a run, in folders beside it, and print the comparison of all three.

    Raises:
        UsageError: several runs were named, this one has no baselines, or names what the command line does not allow.
        RecordError: there is no such run, or its baselines were started with other settings or models.
    """
    # Late: langgraph takes a second, and torch more if a baseline has to run.
    from sottovoce.analysis.statistics import check_installed
    from sottovoce.cli.screens.experiment import shown_row
    from sottovoce.experiments.matching import baselines, with_pilots
    from sottovoce.experiments.runner import RowRunner, check_rows, run_rows
    from sottovoce.report.comparison import compared
    from sottovoce.runs.read import load_run
    from sottovoce.runs.start import settings_of

    if len(names) > 1:
        raise UsageError(f"matched baselines are of one run, and {len(names)} were named; give one")
    check_installed()
    folder = run_directory.folder_of(names[0]).resolve()
    run, beside = load_run(folder), folder.parent
    trust.check_paths(settings_of(run), f"run {folder.name!r}", beside)
    rows = with_pilots(baselines(folder.name, run, by))
    runner = RowRunner(beside, show=shown_row)
    runner.read([folder.name, *rows])
    check_rows(rows, runner)
    try:
        run_rows(rows.values(), runner)
    except KeyboardInterrupt as stop:
        raise StoppedError("stopped; all messages are kept, and the same command resumes") from stop
    runs = {name: run for name, run in runner.runs.items() if "/" not in name}  # pilots are within their rows
    show(compared(runs, folder.name).rstrip("\n"))
    typer.echo(f"kept beside {one_line(str(folder))}")
