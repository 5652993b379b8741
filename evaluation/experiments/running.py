"""Hold the rows of an experiment, one after another, in one folder: what is over is not held again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from sottovoce.errors import RecordError
from sottovoce.evaluation.experiments.folder import keep, runs_in
from sottovoce.evaluation.experiments.rows import Prepared, prepare
from sottovoce.evaluation.experiments.schema import Experiment, Given
from sottovoce.evaluation.runs.head import Head, head_of
from sottovoce.evaluation.runs.limits import Limits
from sottovoce.evaluation.runs.run import Observer, Run
from sottovoce.evaluation.runs.running import hold_all
from sottovoce.evaluation.runs.starting import begun, resumed
from sottovoce.nodes.context import Models

Shown = Callable[[str, Run], AbstractContextManager[Observer | None]]
"""A row that begins or goes on: what observes it."""
SAME = ("scheme", "settings", "seeds", "questions", "prompts")
"""Of a row's head: with others it would be another row."""


def hold(
    experiment: Experiment,
    given: Given,
    folder: Path,
    *,
    names: Iterable[str] = (),
    limits: Limits | None = None,
    shown: Shown | None = None,
    models: Models = None,
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

    Raises:
        UsageError: a row cannot be held; nothing was begun before.
        RecordError: a row was begun with something else than it has now, or the folder cannot be written.
        KeyboardInterrupt: it was stopped; the same call goes on.
    """
    rows, began = {name: prepare(experiment, name) for name in experiment.rows}, time.monotonic()
    runs = runs_in(folder, experiment)
    for name, run in runs.items():
        check_same(rows[name], run.head, folder)
    keep(given, folder)
    for name in experiment.chosen([*names]):
        if name in runs and not runs[name].unfinished:
            continue
        others = [run for other, run in runs.items() if other != name]
        left, why = left_of(limits or Limits(), others, began)
        if not why:
            runs[name] = _opened(rows[name], runs.get(name), runs.values(), folder, models)
            with (shown or (lambda name, run: nullcontext()))(name, runs[name]) as observe:
                settings, store = rows[name].settings, runs[name].store()
                hold_all(runs[name], settings, store, models=models, observe=observe, limits=left)
            why = runs[name].why
        if why:
            return _in_order(runs, experiment), why
    return _in_order(runs, experiment), ""


def check_same(row: Prepared, old: Head, folder: Path) -> None:
    """Refuse to go on with a row that is another now; of its model see `check_weights`.

    Raises:
        RecordError: says what differs, and what to do.
    """
    now = head_of(row.scheme, row.settings, row.questions, row.seeds, row.origin, models={})  # loads none
    for name in SAME:
        before, after = getattr(old, name), getattr(now, name)
        if before != after:
            told = f" ({_differing(before, after)})" if name == "settings" else ""
            raise _another(row.name, f"was begun with other {name}{told}", folder)


def check_weights(name: str, now: Head, others: Iterable[Head], folder: Path) -> None:
    """Refuse a row whose models have the names of earlier ones, its own or other rows', and are not the same.

    Raises:
        RecordError: names the model.
    """
    known = {(each.model, each.dtype): each.weights for head in others for each in head.models.values()}
    for each in now.models.values():
        weights = known.get((each.model, each.dtype), each.weights)
        if weights != each.weights:
            told = f"the model {each.model!r} of weights {weights} held rows before, and has {each.weights} now"
            raise _another(name, f"is another: {told}", folder)


def left_of(limits: Limits, others: Iterable[Run], began: float) -> tuple[Limits, str]:
    """What is left to a row of the limits of all rows, and which of them is reached already, in words."""
    costs = [run.cost for run in others]
    calls, tokens = sum(cost.calls for cost in costs), sum(cost.tokens_in + cost.tokens_out for cost in costs)
    seconds = limits.time_limit and limits.time_limit - (time.monotonic() - began)
    why = limits.reached(calls, tokens) or (limits.out_of_time() if seconds is not None and seconds <= 0 else "")
    left = {
        "call_limit": limits.call_limit and limits.call_limit - calls,
        "token_limit": limits.token_limit and limits.token_limit - tokens,
        "time_limit": seconds,
    }
    return limits.model_copy(update=left), why


def _opened(row: Prepared, run: Run | None, others: Iterable[Run], folder: Path, models: Models) -> Run:
    head = head_of(row.scheme, row.settings, row.questions, row.seeds, row.origin, models=models)
    check_weights(row.name, head, [each.head for each in others], folder)
    return begun(head, row.questions, folder / row.name) if run is None else resumed(run, head)


def _differing(before: Mapping[str, object], after: Mapping[str, object]) -> str:
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return ", ".join(f"{name} {before.get(name)!r}, now {after.get(name)!r}" for name in names)


def _another(name: str, why: str, folder: Path) -> RecordError:
    return RecordError(
        f"row {name!r} {why}; put that back, remove {str(folder / name)!r} to hold the row anew, "
        "or give another folder (--save)"
    )


def _in_order(runs: Mapping[str, Run], experiment: Experiment) -> dict[str, Run]:
    return {name: runs[name] for name in experiment.rows if name in runs}
