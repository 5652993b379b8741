"""A run begins, or goes on where an earlier session stopped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sottovoce.errors import RecordError
from sottovoce.evaluation.runs import shelf
from sottovoce.evaluation.runs.head import Head, head_of
from sottovoce.evaluation.runs.log import LOG, in_use
from sottovoce.evaluation.runs.reading import head_in, load_run
from sottovoce.evaluation.runs.run import Run
from sottovoce.evaluation.runs.trust import NO_TRUST
from sottovoce.graphs import scheme
from sottovoce.nodes.given import Models
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import Settings


def begun(head: Head, questions: Sequence[Question], folder: Path | None = None) -> Run:
    """A new run, in `folder` or on the shelf, where the oldest make room. Errors: see `Run.begin`."""
    if folder is None:
        shelf.prune(shelf.KEPT - 1)
    return Run.begin(head, questions, folder or shelf.new_folder(head.scheme))


def continued(head: Head, questions: Sequence[Question], folder: Path | None = None) -> Run:
    """The latest run of the same kind that is not over, resumed; a new one where there is none.

    Raises:
        RecordError: the run in `folder` is of another kind, or in use.
    """
    if folder is not None:
        return resumed(load_run(folder), head) if (folder / LOG).exists() else begun(head, questions, folder)
    for each in reversed(shelf.kept()):
        try:
            head_in(each).check_same(head, each.name)
            run = load_run(each)
        except RecordError:  # another kind of run, or one of another version
            continue
        if run.unfinished and not in_use(each):
            return resumed(run, head)
    return begun(head, questions)


def resumed(run: Run, now: Head | None = None, models: Models = None, settings: Settings | None = None) -> Run:
    """A run that was read from its folder, to go on with; `settings` are its own unless given.

    Raises:
        RecordError: models or prompts are others now, or another process has it.
    """
    settings = settings or settings_of(run)
    now = now or head_of(run.head.scheme, settings, run.questions(), run.head.seeds, run.head.origin, models=models)
    run.notes += run.head.check_same(now, str(run.folder))
    run.resume()
    return run


def settings_of(run: Run) -> Settings:
    """Return the settings of a run without its sandbox, which only the command line chooses (`Trust`).

    Raises:
        UsageError: this version knows one of them no more.
    """
    return NO_TRUST.applied(settings_begun(run))


def settings_begun(run: Run) -> Settings:
    """Return all settings of a run. Errors: see `settings_of`."""
    kind = scheme(run.head.scheme).settings
    usual = kind().model_dump(mode="json")
    # What is as usual was not chosen: given models have their own of it.
    return kind.model_validate({name: value for name, value in run.head.settings.items() if value != usual.get(name)})
