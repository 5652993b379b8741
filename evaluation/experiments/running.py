"""Hold the rows of an experiment, one after another, in one folder: what is over is not held again."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.errors import UsageError
from sottovoce.evaluation.experiments.checks import check_same, check_weights
from sottovoce.evaluation.experiments.folder import keep, runs_in
from sottovoce.evaluation.experiments.matching import check_order, fitted, is_known, pilot_name, pilot_of
from sottovoce.evaluation.experiments.rows import Prepared, prepare
from sottovoce.evaluation.experiments.schema import Experiment, Given
from sottovoce.evaluation.runs.budget import Budget
from sottovoce.evaluation.runs.head import head_of
from sottovoce.evaluation.runs.limits import Limits
from sottovoce.evaluation.runs.run import Observer, Run
from sottovoce.evaluation.runs.running import hold_all
from sottovoce.evaluation.runs.starting import begun, resumed, settings_begun
from sottovoce.evaluation.runs.trust import Trust, contained
from sottovoce.nodes.context import made_from
from sottovoce.nodes.given import Models
from sottovoce.nodes.settings import Settings
from sottovoce.outputs import check_no_link

Shown = Callable[[str, Run], AbstractContextManager[Observer | None]]
"""A row that begins or goes on: what observes it."""


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
    """Hold those of the rows that are not over; returns the runs of all, and why it was stopped, if it was.

    Args:
        experiment: What it is.
        given: The same as it stands in its file.
        folder: Where it is kept; what stands there is gone on with.
        names: The rows to hold; all if none is named.
        limits: Of all rows together.
        shown: Tells what is to observe a row.
        models: Chat models that play the agents; None makes those that the settings name.
        trust: Has the sandbox of all rows, where the experiment may be somebody else's; None leaves them their own.

    Raises:
        UsageError: a row cannot be held; nothing was begun before.
        RecordError: a row was begun with something else than it has now, or the folder cannot be written.
        KeyboardInterrupt: it was stopped; the same call goes on.
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
    return row if run is None else replace(row, settings=contained(row.settings, settings_begun(run)))


def with_pilots(rows: Iterable[Prepared]) -> dict[str, Prepared]:
    """The rows by name, a pilot before each that is matched to another."""
    found = [[pilot_of(row), row] if row.matched else [row] for row in rows]
    return {each.name: each for pair in found for each in pair}


def check_all(rows: Mapping[str, Prepared], runs: Mapping[str, Run], folder: Path) -> None:
    """Refuse to go on with rows that are others now. Errors: see `check_same`."""
    for name, run in runs.items():
        if name in rows and is_known(rows[name], runs):
            check_same(fitted(rows[name], runs)[0], run.head, folder)


def hold_rows(
    rows: Iterable[Prepared],
    runs: dict[str, Run],
    folder: Path,
    limits: Limits,
    *,
    shown: Shown | None = None,
    models: Models = None,
) -> str:
    """Hold what is not over of the rows, in their order; `runs` has what was begun, and gets them.

    Returns why it was stopped, if it was. Errors: see `hold`.
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
    """Hold what is not over of a row's run. Errors: see `hold_all`."""
    _forget(row.settings, models)
    with shown(row.name, run) if shown else nullcontext() as observe:
        hold_all(run, row.settings, run.store(), models=models, observe=observe, limits=limits)


def _forget(settings: Settings, models: Models) -> None:
    """Drop what models read in rows before: what a row computes must not depend on its place in the table."""
    for agent in settings.names() if models is None else ():
        model = made_from(settings, agent)
        if isinstance(model, HookedChatModel):
            model.loaded.engine.forget()


def reached(limits: Limits, runs: Iterable[Run], began: float) -> str:
    """Which limit all rows together have reached, in words; empty where none is."""
    late = limits.time_limit is not None and time.monotonic() - began >= limits.time_limit
    return limits.reached(*_spent(runs)) or (limits.out_of_time() if late else "")


def left_of(limits: Limits, others: Iterable[Run], began: float) -> Limits:
    """What the other rows leave of the limits, where none is reached."""
    calls, tokens = _spent(others)
    left = {
        "call_limit": limits.call_limit and limits.call_limit - calls,
        "token_limit": limits.token_limit and limits.token_limit - tokens,
        "time_limit": limits.time_limit and limits.time_limit - (time.monotonic() - began),
    }
    return limits.model_copy(update=left)


def _spent(runs: Iterable[Run]) -> tuple[int, int]:
    """Calls, and tokens read and written."""
    costs = [run.cost for run in runs]
    return sum(cost.calls for cost in costs), sum(cost.tokens_in + cost.tokens_out for cost in costs)


def opened(row: Prepared, budget: Budget | None, runs: Mapping[str, Run], folder: Path, models: Models) -> Run:
    """A row's run in `folder`, begun or gone on with, once its models are known to be those of the others.

    Raises:
        RecordError: they are not, the run cannot go on, or a link stands in its place.
    """
    check_no_link(folder / row.name)
    head = head_of(row.scheme, row.settings, row.questions, row.seeds, row.origin, models=models)
    head = head.model_copy(update={"budget": budget})
    check_weights(row.name, head, [each.head for each in runs.values()], folder)
    run = runs.get(row.name)
    return begun(head, row.questions, folder / row.name) if run is None else resumed(run, head)
