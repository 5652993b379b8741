"""The runner of rows: one run after another in one folder; rows that are over do not run again, others resume.

Experiment files, tables of papers, matched baselines and searches all run their rows here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.core.errors import RecordError, SottovoceError, UsageError
from sottovoce.core.outputs import check_no_link
from sottovoce.experiments.folder import runs_in, save
from sottovoce.experiments.matching import check_order, is_known, match, pilot_name, with_pilots
from sottovoce.experiments.rows import Row, prepare
from sottovoce.experiments.schema import Experiment, choose
from sottovoce.nodes.context import made_from
from sottovoce.nodes.inputs import Models
from sottovoce.runs.allowed import Trust, contained
from sottovoce.runs.limits import Limits
from sottovoce.runs.manifest import Head, head_of, prompts_digest
from sottovoce.runs.run import Observer, Run
from sottovoce.runs.runner import hold_all
from sottovoce.runs.start import begun, resumed, settings_begun
from sottovoce.settings import Settings

Show = Callable[[str, Run], AbstractContextManager[Observer | None]]
"""A function of a row's name and its run; it returns a context manager that yields the run's observer."""
IDENTITY = ("scheme", "settings", "seeds", "questions", "prompts")
"""Fields of a run's manifest that identify a row; with other values it would be another row."""


class LimitReached(SottovoceError):
    """A limit for all rows together that stopped the runner."""

    def __init__(self, reason: str) -> None:
        """Take the reason in words, such as "the call limit is reached: 6 of 6"."""
        super().__init__(f"{reason}; run the same command to continue, with a higher limit or none")
        self.reason = reason


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
        self.folder, self.limits, self.show, self.models = folder, limits or Limits(), show, models
        self.runs: dict[str, Run] = {}
        """The runs that have been read or started, by row."""
        self._started = time.monotonic()

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
        old = self.runs[row.name].head
        now = head_of(row.scheme, row.settings, row.questions, row.seeds, row.origin, models={})  # loads none
        # The prompt packs of agents follow from their models, which are not loaded here.
        now = now.model_copy(update={"prompts": prompts_digest(row.scheme, row.settings, old.packs)})
        for field in IDENTITY:
            before, after = (head.complete if field == "settings" else getattr(head, field) for head in (old, now))
            if before != after:
                difference = f" ({differing(before, after)})" if field == "settings" else ""
                raise self._changed(row.name, f"was started with other {field}{difference}")

    def run(self, row: Row) -> Run:
        """Return the run of a row, after running those of its discussions that are not over.

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
        if reason := self._reached():
            raise LimitReached(reason)
        limits = self._limits_left([run for name, run in self.runs.items() if name != row.name])
        run = self.runs[row.name] = self._opened(row)
        self._forget_prompts(row.settings)
        with self.show(row.name, run) if self.show else nullcontext() as observe:
            hold_all(run, row.settings, run.store(), models=self.models, observe=observe, limits=limits)
        if run.why:
            raise LimitReached(self._reached() or run.why)
        return run

    def _opened(self, row: Row) -> Run:
        """Start or resume a row's run, after checking its models against those of the other runs."""
        head = head_of(row.scheme, row.settings, row.questions, row.seeds, row.origin, models=self.models)
        head = head.model_copy(update={"budget": row.budget})
        self._check_weights(row.name, head)
        run = self.runs.get(row.name)
        return begun(head, row.questions, self.folder / row.name) if run is None else resumed(run, head)

    def _check_weights(self, name: str, head: Head) -> None:
        """Check that models with the same name have the same weights as in all runs so far."""
        known = {
            (model.model, model.stored): model.weights
            for run in self.runs.values()
            for model in run.head.models.values()
        }
        for model in head.models.values():
            before = known.get((model.model, model.stored), model.weights)
            if before != model.weights:
                weights = f"had the weights {before} before, and has {model.weights} now"
                raise self._changed(name, f"has changed: the model {model.model!r} {weights}")

    def _changed(self, name: str, change: str) -> RecordError:
        return RecordError(
            f"row {name!r} {change}; put that back, remove {str(self.folder / name)!r} to run the row again, "
            "or give another folder (--save)"
        )

    def _forget_prompts(self, settings: Settings) -> None:
        """Drop what models cached in earlier rows: a row's results must not depend on its place in the table."""
        for agent in settings.names() if self.models is None else ():
            model = made_from(settings, agent)
            if isinstance(model, HookedChatModel):
                model.loaded.engine.forget()

    def _reached(self) -> str:
        """Return in words the limit that all rows together have reached, or ""."""
        limit = self.limits.time_limit
        late = limit is not None and time.monotonic() - self._started >= limit
        return self.limits.reached(*_spent(self.runs.values())) or (self.limits.out_of_time() if late else "")

    def _limits_left(self, others: Iterable[Run]) -> Limits:
        """Return what the other rows leave of the limits, if they have reached none."""
        (calls, tokens), limits = _spent(others), self.limits
        left = {
            "call_limit": limits.call_limit and limits.call_limit - calls,
            "token_limit": limits.token_limit and limits.token_limit - tokens,
            "time_limit": limits.time_limit and limits.time_limit - (time.monotonic() - self._started),
        }
        return limits.model_copy(update=left)


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
        trust: Has the sandbox for all rows, if the experiment may be someone else's; None leaves them their own.

    Raises:
        UsageError: a row cannot run; found before any row starts.
        RecordError: see `RowRunner.run`; also found before any row starts, except for models.
        KeyboardInterrupt: it was stopped; the same call resumes.
    """
    rows = with_pilots(prepare(experiment, name) for name in experiment.rows)
    chosen = [
        each for name in choose("row", names, experiment.rows) for each in (pilot_name(name), name) if each in rows
    ]
    runner.read(rows)
    if trust is not None:
        rows = {name: _contained(row, runner.runs.get(name), trust, name in chosen) for name, row in rows.items()}
    check_rows(rows, runner)
    check_order(rows, chosen, runner.runs)
    save(experiment.content, runner.folder)
    reason = run_rows([rows[name] for name in chosen], runner)
    return {name: runner.runs[name] for name in experiment.rows if name in runner.runs}, reason


def check_rows(rows: Mapping[str, Row], runner: RowRunner) -> None:
    """Check all rows before one starts, except those whose number of samples is not known yet."""
    for row in rows.values():
        if is_known(row, runner.runs):
            runner.check(match(row, runner.runs))


def run_rows(rows: Iterable[Row], runner: RowRunner) -> str:
    """Run rows in order, matched rows with their number of samples; return why they stopped early, or "".

    Errors: see `RowRunner.run`.
    """
    try:
        for row in rows:
            runner.run(match(row, runner.runs))
    except LimitReached as limit:
        return limit.reason
    return ""


def _contained(row: Row, run: Run | None, trust: Trust, chosen: bool) -> Row:
    """Return a row with the command line's sandbox; a row that does not run now keeps the one of its run.

    Raises:
        UsageError: the row needs a sandbox, and the command line has none.
    """
    if chosen and (run is None or run.unfinished):
        if line := trust.uncontained(row.settings, f"row {row.name!r}"):
            raise UsageError(line)
        return replace(row, settings=trust.applied(row.settings))
    return row if run is None else replace(row, settings=contained(row.settings, settings_begun(run)))


def _spent(runs: Iterable[Run]) -> tuple[int, int]:
    """Return the numbers of calls, and of tokens read and written."""
    costs = [run.cost for run in runs]
    return sum(cost.calls for cost in costs), sum(cost.tokens_in + cost.tokens_out for cost in costs)
