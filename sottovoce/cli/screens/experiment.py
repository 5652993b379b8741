"""The command `experiment run`: run the unfinished rows of an experiment, and compare all rows.

Nothing here imports torch or langgraph before an experiment runs: the command line reads the options.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ConfigDict, Field

from sottovoce.core.bounds import Count
from sottovoce.core.errors import SottovoceError, StoppedError, UsageError
from sottovoce.core.outputs import EXPERIMENT, check_folder
from sottovoce.core.text import harmless, one_line
from sottovoce.core.validation import Checked
from sottovoce.report.tables import show
from sottovoce.runs.allowed import NO_TRUST, Trust
from sottovoce.runs.limits import Limits
from sottovoce.runs.run_directory import shelf

if TYPE_CHECKING:
    from sottovoce.experiments.schema import Experiment
    from sottovoce.runs.run import Observer, Run


class ExperimentOptions(Checked):
    """The experiment, and how much of it to run."""

    model_config = ConfigDict(title="Experiment")

    file: Path | None = Field(
        default=None,
        description="A YAML file of rows and questions, or the folder of an experiment that has started.",
        json_schema_extra={"positional": True},
    )
    rows: list[str] = Field(default=[], description="Run only this row.")
    limit: Count | None = Field(default=None, ge=1, description="Ask only this many questions, from the first.")
    save: Path | None = Field(
        default=None, description="Save it in this folder, not with the other runs under the file's name."
    )


def show_experiment(options: ExperimentOptions, limits: Limits, trust: Trust = NO_TRUST) -> None:
    """Run the unfinished rows, and print the comparison of all rows; a finished experiment needs no model.

    Raises:
        UsageError: the file, or a row of it, is wrong, or it names what the command line does not allow.
        RecordError: the folder holds rows of another kind, or cannot be written.
        SottovoceError: discussions failed; raised after all else.
    """
    # Late: langgraph takes a second, and torch more if a row has to run.
    from sottovoce.analysis.statistics import check_installed
    from sottovoce.experiments.files import check_trusted, read_experiment
    from sottovoce.experiments.folder import FILE
    from sottovoce.experiments.runner import RowRunner, run_experiment

    if (file := options.file) is None:
        raise UsageError("no experiment was given; expected a YAML file, or the folder of one that has started")
    check_installed()
    again = file.is_dir()
    few = f"-limit-{options.limit}" if options.limit else ""
    folder = options.save or (file if again else shelf() / f"{file.stem}{few}")
    if folder != file:
        check_folder(folder, "--save", EXPERIMENT)
    experiment = read_experiment(file / FILE if again else file, options.limit)
    check_trusted(experiment, file if again else file.parent, trust)
    try:
        runner = RowRunner(folder, limits, shown_row)
        runs, why = run_experiment(experiment, runner, names=options.rows, trust=trust)
    except KeyboardInterrupt as stop:
        raise StoppedError(f"stopped; all messages are kept in {str(folder)!r}, and the same command resumes") from stop
    show(report(experiment, runs))
    print(f"{f'stopped: {why}; ' if why else ''}kept in {one_line(str(folder))}")
    _complain(runs)


def report(experiment: Experiment, runs: dict[str, Run]) -> str:
    """Return the comparison of the rows in Markdown, followed by the rows that are not over."""
    from sottovoce.experiments.folder import ended
    from sottovoce.report.comparison import compared, waiting

    results = ended(runs)
    against = experiment.against if experiment.against in results else None
    blocks = [harmless(experiment.about.strip()), compared(runs, against).rstrip() if results else ""]
    left = [*waiting(runs), *(f"- `{name}`: not started." for name in experiment.rows if name not in runs)]
    return "\n\n".join(filter(None, [*blocks, "\n".join(left)])) + "\n"


@contextmanager
def shown_row(name: str, run: Run) -> Iterator[Observer]:
    """Show the progress of a row on stderr, so that stdout has only the tables."""
    from rich.console import Console

    from sottovoce.cli.screens.progress import RunProgress
    from sottovoce.cli.screens.run_screen import summary, title

    console = Console(stderr=True, markup=False, emoji=False, highlight=False)
    console.print(f"{name}: {title(run.head, len(run.records))}", soft_wrap=True)
    with RunProgress(console, run) as progress:
        yield progress.observe
    console.print(f"{name}: {', '.join(summary(run)[:-1])}", soft_wrap=True)


def _complain(runs: dict[str, Run]) -> None:
    failed = [record for run in runs.values() for record in run.records.values() if record.status == "failed"]
    if failed:
        n = sum(len(run.records) for run in runs.values())
        raise SottovoceError(f"{len(failed)} of {n} discussions failed, the first one: {failed[0].error}")
