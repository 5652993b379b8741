"""The runner of an experiment: its rows run one after another in one folder, and finished rows do not run again."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.core.errors import UsageError
from sottovoce.core.outputs import check_no_link
from sottovoce.experiments.checks import check_same, check_weights
from sottovoce.experiments.folder import keep, runs_in
from sottovoce.experiments.matching import check_order, fitted, is_known, pilot_name, pilot_of
from sottovoce.experiments.rows import Prepared, prepare
from sottovoce.experiments.schema import Experiment, Given
from sottovoce.nodes.context import made_from
from sottovoce.nodes.inputs import Models
from sottovoce.runs.allowed import Trust, contained
from sottovoce.runs.budget import Budget
from sottovoce.runs.limits import Limits
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.run import Observer, Run
from sottovoce.runs.runner import run_all
from sottovoce.runs.start import all_settings_of, resume_run, start_run
from sottovoce.settings import Settings

Shown = Callable[[str, Run], AbstractContextManager[Observer | None]]
"""A function of a row's name and its run; it returns a context manager that yields the run's observer."""


def hold(
    experiment: Experiment,
    given: Given,
    folder: Path,
    *,
    names: Collection[str] = (),
    limits: Limits | None = None,
    shown: Shown | None = None,
    models: Models = None,
    trust: Trust | None = None,
) -> tuple[dict[str, Run], str]:
    """Run the rows that are not over; return the runs of all rows, and why they stopped early, or "".

    Args:
        experiment: The experiment.
        given: The content of its file.
        folder: Its folder; the runs in it are resumed.
        names: The rows to run; all if empty.
        limits: The limits for all rows together.
        shown: Returns the observer of a row.
        models: Chat models that play the agents; None creates those that the settings name.
        trust: Has the sandbox for all rows, if the experiment may be someone else's; None leaves them their own.

    Raises:
        UsageError: a row cannot run; found before any row starts.
        RecordError: a row was started with other settings or models, or the folder cannot be written.
        KeyboardInterrupt: it was stopped; the same call resumes.
    """
    rows = with_pilots(prepare(experiment, name) for name in experiment.rows)
    chosen = [each for name in experiment.chosen([*names]) for each in (pilot_name(name), name) if each in rows]
    runs = runs_in(folder, rows)
    if trust is not None:
        rows = {name: _contained(row, runs.get(name), trust, name in chosen) for name, row in rows.items()}
    check_all(rows, runs, folder)
    check_order(rows, chosen, runs)
    keep(given, folder)
    why = hold_rows([rows[name] for name in chosen], runs, folder, limits or Limits(), shown=shown, models=models)
    return {name: runs[name] for name in experiment.rows if name in runs}, why


def _contained(row: Prepared, run: Run | None, trust: Trust, chosen: bool) -> Prepared:
    """Return a row with the command line's sandbox; a row that does not run now keeps the one of its run.

    Raises:
        UsageError: the row needs a sandbox, and the command line has none.
    """
    if chosen and (run is None or run.unfinished):
        if line := trust.uncontained(row.settings, f"row {row.name!r}"):
            raise UsageError(line)
        return replace(row, settings=trust.applied(row.settings))
    return row if run is None else replace(row, settings=contained(row.settings, all_settings_of(run)))


def with_pilots(rows: Iterable[Prepared]) -> dict[str, Prepared]:
    """Return the rows by name, with a pilot before each row that is matched to another."""
    found = [[pilot_of(row), row] if row.matched else [row] for row in rows]
    return {each.name: each for pair in found for each in pair}


def check_all(rows: Mapping[str, Prepared], runs: Mapping[str, Run], folder: Path) -> None:
    """Check that rows are still those of their runs. Errors: see `check_same`."""
    for name, run in runs.items():
        if name in rows and is_known(rows[name], runs):
            check_same(fitted(rows[name], runs)[0], run.manifest, folder)


def hold_rows(
    rows: Iterable[Prepared],
    runs: dict[str, Run],
    folder: Path,
    limits: Limits,
    *,
    shown: Shown | None = None,
    models: Models = None,
) -> str:
    """Run the rows that are not over, in their order; `runs` has the runs that have started, and receives the new ones.

    Return why they stopped early, or "". Errors: see `run_one`.
    """
    why, began = "", time.monotonic()
    for row in rows:
        name = row.name
        if why or (name in runs and not runs[name].unfinished):
            continue
        if not (why := reached(limits, runs.values(), began)):
            left = left_of(limits, [run for other, run in runs.items() if other != name], began)
            fit, budget = fitted(row, runs)
            runs[name] = opened(fit, budget, runs, folder, models)
            hold_row(fit, runs[name], left, shown, models)
            why = runs[name].why and (reached(limits, runs.values(), began) or runs[name].why)
    return why


def hold_row(row: Prepared, run: Run, limits: Limits, shown: Shown | None, models: Models) -> None:
    """Run the discussions of a row that are not over. Errors: see `run_all`."""
    _forget(row.settings, models)
    with shown(row.name, run) if shown else nullcontext() as observe:
        run_all(run, row.settings, run.store(), models=models, observe=observe, limits=limits)


def _forget(settings: Settings, models: Models) -> None:
    """Drop what models cached in earlier rows: a row's results must not depend on its place in the table."""
    for agent in settings.names() if models is None else ():
        model = made_from(settings, agent)
        if isinstance(model, HookedChatModel):
            model.loaded.engine.forget()


def reached(limits: Limits, runs: Iterable[Run], began: float) -> str:
    """Return in words the limit that all rows together have reached, or ""."""
    late = limits.time_limit is not None and time.monotonic() - began >= limits.time_limit
    return limits.reached(*_spent(runs)) or (limits.out_of_time() if late else "")


def left_of(limits: Limits, others: Iterable[Run], began: float) -> Limits:
    """Return what the other rows leave of the limits, if they have reached none."""
    calls, tokens = _spent(others)
    left = {
        "call_limit": limits.call_limit and limits.call_limit - calls,
        "token_limit": limits.token_limit and limits.token_limit - tokens,
        "time_limit": limits.time_limit and limits.time_limit - (time.monotonic() - began),
    }
    return limits.model_copy(update=left)


def _spent(runs: Iterable[Run]) -> tuple[int, int]:
    """Return the numbers of calls, and of tokens read and written."""
    costs = [run.cost for run in runs]
    return sum(cost.calls for cost in costs), sum(cost.tokens_in + cost.tokens_out for cost in costs)


def opened(row: Prepared, budget: Budget | None, runs: Mapping[str, Run], folder: Path, models: Models) -> Run:
    """Start or resume a row's run in `folder`, after checking its models against those of the other runs.

    Raises:
        RecordError: the models differ, the run cannot be resumed, or its folder is a link.
    """
    check_no_link(folder / row.name)
    head = new_manifest(row.scheme, row.settings, row.questions, row.seeds, row.origin, models=models)
    head = head.model_copy(update={"budget": budget})
    check_weights(row.name, head, [each.manifest for each in runs.values()], folder)
    run = runs.get(row.name)
    return start_run(head, row.questions, folder / row.name) if run is None else resume_run(run, head)
