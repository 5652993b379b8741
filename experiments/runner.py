"""The runner of rows: one run after another in one folder; rows that are over do not run again, others resume.

Experiment files, tables of papers, matched baselines and searches all run their rows here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path

from sottovoce.core.errors import RecordError, UsageError
from sottovoce.core.files import check_no_link
from sottovoce.core.trust import Trust, contained
from sottovoce.experiments.files import check_file, runs_in, save
from sottovoce.experiments.rows import IDENTITY, PILOT, Row, match, prepare, unknown_cost, waits_for, with_pilots
from sottovoce.experiments.schema import Experiment
from sottovoce.nodes.context import Models
from sottovoce.runs.limits import Limits
from sottovoce.runs.manifest import new_manifest, prompts_digest
from sottovoce.runs.run import Run
from sottovoce.runs.runner import Job, LimitReached, Show, resume_run, start_run


class RowRunner:
    """A folder of runs, one for each row, with limits that count for all of them together."""

    def __init__(
        self, folder: Path, limits: Limits | None = None, show: Show | None = None, models: Models = None
    ) -> None:
        """Start the clock of the limits.

        Args:
            folder: The folder; the run of a row is in the subfolder with the row's name.
            limits: The limits for all rows together.
            show: Returns the observer of a row.
            models: Chat models that play the agents; None creates those that the settings name.
        """
        self.folder, self.models = folder, models
        self._job = Job(limits, show, models)
        self.begin: Callable[[], object] = lambda: None
        """Called before a row runs, when its models are known to be there."""
        self.runs: dict[str, Run] = {}
        """The runs that have been read or started, by row."""

    def read(self, names: Iterable[str]) -> None:
        """Read the runs of these rows that have started. Errors: see `runs_in`."""
        self.runs |= runs_in(self.folder, [name for name in names if name not in self.runs])

    def check(self, row: Row) -> None:
        """Check that a row is still the one of its run, if that has started; its models are checked when it resumes.

        Raises:
            RecordError: names the difference and the remedy.
        """
        if row.name not in self.runs:
            return
        old = self.runs[row.name].manifest
        now = new_manifest(row.scheme, row.settings, row.questions, row.seeds, row.origin, models={})  # loads none
        # The prompt packs of agents follow from their models, which are not loaded here.
        prompts = prompts_digest(row.scheme, row.settings, old.packs)
        now = now.model_copy(update={"prompts": prompts, "budget": row.budget})
        for field in IDENTITY:
            before, after = (getattr(head, field) for head in (old, now))
            if before != after:
                difference = f" ({differing(before, after)})" if field == "settings" else ""
                raise self._changed(row.name, f"was started with other {field}{difference}")

    def run(self, row: Row) -> Run:
        """Return the run of a row, after running its unfinished discussions.

        Raises:
            LimitReached: a limit was reached before or during the run.
            RecordError: the run was started with other settings or models, cannot be written, or its folder is a link.
            KeyboardInterrupt: it was stopped; the same call resumes.
        """
        check_no_link(self.folder / row.name)
        self.read([row.name])
        self.check(row)
        if row.name in self.runs and not self.runs[row.name].unfinished:
            return self.runs[row.name]
        if reason := self._job.reached(self.runs.values()):
            raise LimitReached(reason)
        others = [run for name, run in self.runs.items() if name != row.name]
        run = self.runs[row.name] = self._opened(row)
        self._job.run(row.name, run, row.settings, others)
        if run.why:
            raise LimitReached(self._job.reached(self.runs.values()) or run.why)
        return run

    def check_all(self, rows: Mapping[str, Row], chosen: Collection[str]) -> None:
        """Check rows before the `chosen` ones run; a row with an unknown number of samples is checked when it runs.

        Raises:
            UsageError: a chosen row needs the cost of a run that is not over or failed in part, and does not run.
            RecordError: see `check`.
        """
        for name, row in rows.items():
            if not (waiting := waits_for(row, self.runs)):
                self.check(match(row, self.runs))
            elif name in chosen and waiting not in chosen:
                raise UsageError(self._remedy(waiting))

    def run_all(self, rows: Mapping[str, Row], chosen: Iterable[str]) -> str:
        """Run rows in order, matched ones with their number of samples; return why some did not run or end, or "".

        A row that is matched to one with failures waits, and the others run. Errors: see `run`.
        """
        needed = dict[str, None]()
        try:
            for name in chosen:
                if waiting := waits_for(rows[name], self.runs):
                    needed[waiting] = None
                else:
                    self.run(match(rows[name], self.runs))
        except LimitReached as limit:
            return limit.reason
        return "; ".join(map(self._remedy, needed))

    def _remedy(self, name: str) -> str:
        return f"row {unknown_cost(name, self.runs.get(name))}; run it again, before rows that are matched to it"

    def _opened(self, row: Row) -> Run:
        """Start or resume a row's run, after comparing its models with the other runs' models."""
        head = new_manifest(row.scheme, row.settings, row.questions, row.seeds, row.origin, models=self.models)
        head = head.model_copy(update={"budget": row.budget})
        used = chain.from_iterable(run.manifest.models.values() for run in self.runs.values())
        known = {(model.model, model.format): model.weights for model in used}
        for model in head.models.values():
            before = known.get((model.model, model.format), model.weights)
            if before != model.weights:
                weights = f"had the weights {before} before, and has {model.weights} now"
                raise self._changed(row.name, f"has changed: the model {model.model!r} {weights}")
        self.begin()
        run = self.runs.get(row.name)
        return start_run(head, row.questions, self.folder / row.name) if run is None else resume_run(run, head)

    def _changed(self, name: str, change: str) -> RecordError:
        return RecordError(
            f"row {name!r} {change}; put that back, remove {str(self.folder / name)!r} to run the row again, "
            "or give another folder (--save)"
        )


def differing(before: Mapping[str, object], after: Mapping[str, object]) -> str:
    """Return the differences of two mappings in words."""
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return ", ".join(f"{name} {before.get(name)!r}, now {after.get(name)!r}" for name in names)


def run_experiment(
    experiment: Experiment, runner: RowRunner, *, names: Collection[str] = (), trust: Trust | None = None
) -> tuple[dict[str, Run], str]:
    """Run the rows that are not over; return the runs of all rows, and why they stopped early, or "".

    Args:
        experiment: The experiment, which is saved in the runner's folder.
        runner: The runner; runs in its folder are resumed.
        names: The rows to run; all if empty.
        trust: The sandbox for all rows, if somebody else may have written the experiment; None keeps each row's own.

    Raises:
        UsageError: a row cannot run, or the folder is of another file; found before any row starts.
        RecordError: see `RowRunner.run`; also found before any row starts, except for models.
        KeyboardInterrupt: it was stopped; the same call resumes.
    """
    check_file(experiment, runner.folder)
    selected = experiment.runs_of(names)
    runner.read(experiment.rows)
    known = [name for name in experiment.rows if name in selected or name in runner.runs]
    rows = with_pilots(prepare(experiment, name) for name in known)  # the data of others need not be here
    chosen = [each for name in selected for each in (name + PILOT, name) if each in rows]
    runner.read(rows)
    if trust is not None:
        rows = {name: _contained(row, runner.runs.get(name), trust, name in chosen) for name, row in rows.items()}
    runner.check_all(rows, chosen)
    points = {experiment.rows[name].point for name in known}
    runner.begin = cache(lambda: save(experiment.content, runner.folder, points))
    reason = runner.run_all(rows, chosen)
    runner.begin()  # if all rows were over
    return {name: runner.runs[name] for name in experiment.rows if name in runner.runs}, reason


def _contained(row: Row, run: Run | None, trust: Trust, chosen: bool) -> Row:
    """Return a row with the command line's sandbox; a row that does not run now keeps the one of its run."""
    if chosen and (run is None or run.unfinished):
        if line := trust.uncontained(row.settings, f"row {row.name!r}"):
            raise UsageError(line)
        return replace(row, settings=trust.applied(row.settings))
    return row if run is None else replace(row, settings=contained(row.settings, run.manifest.all_settings()))
