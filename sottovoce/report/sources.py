"""Saved runs by name, including rows of experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sottovoce.analysis.compare import Against
from sottovoce.core.errors import RecordError, UsageError
from sottovoce.core.files import EXPERIMENT
from sottovoce.core.text import counted
from sottovoce.experiments.files import read_experiment, runs_in
from sottovoce.experiments.schema import Experiment
from sottovoce.runs import run_directory
from sottovoce.runs.read import load_run
from sottovoce.runs.run import Run


@dataclass
class Gathered:
    """The runs of a report, by their names in it."""

    runs: dict[str, Run] = field(default_factory=dict)
    about: list[str] = field(default_factory=list)
    """The descriptions of the experiments."""
    against: Against = None
    """The row that others are compared with, if the report is of one experiment that names it."""
    experiment: Experiment | None = None
    """The experiment, if the report is of one alone."""

    waiting: list[str] = field(default_factory=list)
    """Rows of experiments that have not started."""

    @property
    def ended(self) -> tuple[int, int]:
        """The number of discussions that ended, and of all discussions."""
        records = [record for run in self.runs.values() for record in run.records.values()]
        return sum(record.status in ("done", "failed") for record in records), len(records)

    @property
    def unfinished(self) -> str:
        """The first line of a report: what is not over, or failed; empty if all discussions have a decision."""
        ended, total = self.ended
        counts = {name: run.counts for name, run in self.runs.items()}
        left = {
            "open": [name for name, each in counts.items() if each.done + each.failed < each.discussions],
            "not started": self.waiting,
            "failed": [name for name, each in counts.items() if each.failed],
        }
        named = "; ".join(f"{how}: {', '.join(names)}" for how, names in left.items() if names)
        begin = "unfinished: " if left["open"] or self.waiting else ""
        return f"{begin}{ended:,} of {counted(total, 'discussion')} ended ({named})" if named else ""


def gathered(names: Sequence[str]) -> Gathered:
    """Read runs and rows of experiments by name or folder.

    Raises:
        RecordError: a run does not exist, or is damaged.
        UsageError: a name occurs twice.
    """
    content = Gathered()
    for name in names:
        _gather(name, content)
    if len(names) > 1:
        content.against = content.experiment = None
    return content


def _gather(name: str, content: Gathered) -> None:
    for folder in (Path(name), run_directory.runs_folder() / name):
        if (folder / EXPERIMENT).exists():
            experiment = read_experiment(folder / EXPERIMENT)
            content.against, content.experiment = experiment.baselines, experiment
            content.about += [experiment.about] if experiment.about else []
            runs = runs_in(folder, experiment.rows)
            _add(runs, content)
            content.waiting += [row for row in experiment.rows if row not in runs]
            return
        if several := [each.parent.name for each in sorted(folder.glob(f"*/{EXPERIMENT}"))]:
            names = ", ".join(map(repr, several))
            raise RecordError(
                f"{name!r} contains experiments, {names}; report one of them: {str(folder / several[0])!r}"
            )
    folder = run_directory.find_run(name)
    _add({folder.resolve().name: load_run(folder)}, content)


def _add(runs: Mapping[str, Run], content: Gathered) -> None:
    for name, run in runs.items():
        if name in content.runs:
            raise UsageError(f"two of the runs have the name {name!r}; give each once, or rename a folder")
        content.runs[name] = run
