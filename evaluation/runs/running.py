"""Hold a discussion on a question, and keep the record of it while it goes on.

The graph runs on an event loop, so that a stop (Ctrl-C) cancels what the agents' models are at,
instead of waiting for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from sottovoce.agents.hosted import failure
from sottovoce.channels.message import Message
from sottovoce.channels.store import PayloadStore
from sottovoce.errors import PayloadError, RecordError, SottovoceError, UsageError
from sottovoce.evaluation.runs.events import Asked, Decided, Event, Opened, events
from sottovoce.evaluation.runs.files import PAYLOADS
from sottovoce.evaluation.runs.readings import readings
from sottovoce.evaluation.runs.record import Count, Level, ModelOf, Reset, Run, ordered, save
from sottovoce.graphs import scheme
from sottovoce.nodes.context import Models
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import Settings
from sottovoce.nodes.watch import Watch

Observer = Callable[[Run, Event], None]
"""Is shown each event, after the record took it."""


@dataclass(frozen=True)
class Task:
    """A scheme, its settings and a question."""

    scheme: str
    settings: Settings
    question: Question
    origin: str | None = None
    """What is to be said of the question's origin; None where a person asked it."""
    models: Models = None
    """Chat models that play the agents; None makes those that the settings name."""
    watch: Watch | None = None
    """Looks at what an agent says before it is published."""


@contextmanager
def payloads(folder: Path | None) -> Iterator[PayloadStore]:
    """The store of a run: in the folder it is saved in, or in one that is removed at the end."""
    if folder is not None:
        yield PayloadStore(folder / PAYLOADS)
        return
    with TemporaryDirectory(prefix="sottovoce-", ignore_cleanup_errors=True) as temporary:
        yield PayloadStore(temporary)


def hold(task: Task, store: PayloadStore, *, folder: Path | None = None, observe: Observer | None = None) -> Run:
    """Run a task to its end and return its record; `folder` keeps it there at every step.

    Raises:
        SottovoceError: the run failed; the record in `folder` says why, unless nothing was said yet.
        KeyboardInterrupt: it was stopped.
        Exception: whatever else ended it, recorded too: a hosted model's provider has errors of its own.
    """
    settings = task.settings.model_dump(mode="json")
    run = Run(scheme=task.scheme, settings=settings, question=task.question, origin=task.origin)
    asyncio.run(_hold(task, run, store, folder, observe or (lambda run, event: None)))
    return run


async def _hold(task: Task, run: Run, store: PayloadStore, folder: Path | None, observe: Observer) -> None:
    graph = scheme(task.scheme).create(task.settings, models=task.models, store=store, watch=task.watch).compile()
    began = time.monotonic()
    try:
        async with aclosing(events(graph, run.question, task.settings.names())) as following:
            async for event in following:
                run.seconds = round(time.monotonic() - began, 3)
                if _take(run, event) and run.messages and folder is not None:
                    save(run, folder)
                observe(run, event)
    except BaseException as error:
        run.status = "stopped" if isinstance(error, (asyncio.CancelledError, KeyboardInterrupt)) else "failed"
        if run.status == "failed":
            own = str(error) if isinstance(error, SottovoceError) else failure(error)
            run.error = own or f"{type(error).__name__}: {error}"
        # What was refused before anything was said leaves nothing, so that it can be corrected and run again.
        if folder is not None and (run.messages or not isinstance(error, UsageError)):
            with suppress(RecordError):  # the disk may be full: the first error counts
                save(run, folder)
        raise


def _take(run: Run, event: Event) -> bool:
    """Enter an event into the record; tells whether it changed."""
    match event:
        case Opened():
            run.settings, run.notes = event.settings, event.notes
        case Asked():
            run.prompts = [*run.prompts, event.prompt]
            return False  # saved with what is said to it
        case Message():
            run.messages = ordered([*run.messages, event])
            _account(run, event)
        case Count():
            run.counts = [*run.counts, event]
        case Level():
            run.levels = [*run.levels, event]
        case Reset():
            run.resets = [*run.resets, event]
        case Decided():
            run.decision, run.status = event.decision, "done"
            run.readings = readings(run)
        case _:
            return False
    return True


def _account(run: Run, message: Message) -> None:
    """What the message cost, and whose model made it."""
    if message.source in ("model", "hosted"):
        run.cost.calls += 1
        run.cost.tokens_in += int(message.stats.get("tokens_in", 0))
        run.cost.tokens_out += int(message.stats.get("tokens_out", 0))
    if message.payload is not None and message.agent not in run.models:
        with suppress(PayloadError):
            label = message.payload.load().label
            made = ModelOf(model=label.model, weights=label.weights, vocabulary=label.vocabulary)
            known, agents = {**run.models, message.agent: made}, dict.fromkeys(each.agent for each in run.messages)
            run.models = {agent: known[agent] for agent in agents if agent in known}  # in the board's order
