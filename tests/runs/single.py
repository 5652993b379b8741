"""One discussion as a run of its own, which most tests of runs need."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sottovoce.channels.store import PayloadStore
from sottovoce.nodes.context import Models
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import Settings
from sottovoce.nodes.watch import Watch
from sottovoce.runs.discussion import HumanReply
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.run import Observer, Run
from sottovoce.runs.runner import run_all


@dataclass(frozen=True)
class Task:
    """A scheme, its settings and a question."""

    scheme: str
    settings: Settings
    question: Question
    origin: str | None = None
    """The question's origin, in words; None if a human asked it."""
    models: Models = None
    """Chat models of the agents; None loads those that the settings name."""
    watch: Watch | None = None
    """Checks each message before it is published."""


def run_one(
    task: Task,
    store: PayloadStore,
    *,
    folder: Path | None = None,
    observe: Observer | None = None,
    person: HumanReply | None = None,
) -> DiscussionRecord:
    """Run one discussion to its end and return its record; `folder` saves it as a run, step by step.

    `observe` is called with each event. `person` replies when a human plays or takes over an agent, or must approve.

    Raises:
        SottovoceError: the discussion failed; the run in `folder` says why, unless nothing was said yet.
        KeyboardInterrupt: it was stopped.
        Exception: any other cause, also recorded: a hosted model's provider has errors of its own.
    """
    manifest = new_manifest(task.scheme, task.settings, [task.question], origin=task.origin, models=task.models)
    run = Run.start(manifest, [task.question], folder)
    run_all(
        run,
        task.settings,
        store,
        models=task.models,
        watch=task.watch,
        observe=observe,
        alone=True,
        person=person,
    )
    return run.only
