"""Starting a run, or resuming one that was stopped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sottovoce.graphs import scheme
from sottovoce.nodes.context import Models
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import Settings
from sottovoce.runs import run_directory
from sottovoce.runs.allowed import NO_TRUST
from sottovoce.runs.log import LOG
from sottovoce.runs.manifest import RunManifest, new_manifest
from sottovoce.runs.read import load_run
from sottovoce.runs.run import Run


def start_run(manifest: RunManifest, questions: Sequence[Question], folder: Path | None = None) -> Run:
    """Start a run, in `folder` or in the default place, where the oldest runs are removed. Errors: see `Run.start`."""
    if folder is None:
        run_directory.prune(run_directory.MAX_RUNS - 1)
    return Run.start(manifest, questions, folder or run_directory.new_folder(manifest.scheme))


def continue_run(manifest: RunManifest, questions: Sequence[Question], folder: Path) -> Run:
    """Resume the run in `folder`, or start it there.

    Raises:
        RecordError: the run there has another manifest, or is in use.
    """
    if (folder / LOG).exists():
        return resume_run(load_run(folder), manifest)
    return start_run(manifest, questions, folder)


def resume_run(
    run: Run, now: RunManifest | None = None, models: Models = None, settings: Settings | None = None
) -> Run:
    """Resume a run that was read from its directory; `settings` default to its own.

    Raises:
        RecordError: its models or prompts have changed, or another process uses it.
    """
    settings = settings or settings_of(run)
    now = now or new_manifest(
        run.manifest.scheme, settings, run.questions(), run.manifest.seeds, run.manifest.origin, models=models
    )
    run.notes += run.manifest.check_same(now, str(run.folder))
    run.resume()
    return run


def settings_of(run: Run) -> Settings:
    """Return the settings of a run without its sandbox, which only the command line chooses (`Trust`).

    Raises:
        UsageError: this version no longer knows one of them.
    """
    return NO_TRUST.applied(all_settings_of(run))


def all_settings_of(run: Run) -> Settings:
    """Return all settings of a run. Errors: see `settings_of`."""
    kind = scheme(run.manifest.scheme).settings
    usual = kind().model_dump(mode="json")
    # Defaults count as not chosen: models given in code bring values of their own.
    return kind.model_validate(
        {name: value for name, value in run.manifest.settings.items() if value != usual.get(name)}
    )
