"""Run a scheme on a question, and keep the record of it while it goes on.

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
from sottovoce.channels.board import Board
from sottovoce.channels.message import Message
from sottovoce.channels.store import PayloadStore
from sottovoce.errors import PayloadError, RecordError, SottovoceError, UsageError
from sottovoce.evaluation.events import Counted, Decided, Event, Graph, Opened, Regrouped, Spoke, events
from sottovoce.evaluation.record import PAYLOADS, Count, Level, Run, Speaker, discard, save
from sottovoce.graphs import scheme
from sottovoce.nodes.company import Models
from sottovoce.nodes.settings import Settings
from sottovoce.nodes.state import Question

Watch = Callable[[Run, Event], None]
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


@contextmanager
def payloads(folder: Path | None) -> Iterator[PayloadStore]:
    """The store of a run: in the folder it is saved in, or in one that is removed at the end."""
    if folder is not None:
        yield PayloadStore(folder / PAYLOADS)
        return
    with TemporaryDirectory(prefix="sottovoce-", ignore_cleanup_errors=True) as temporary:
        yield PayloadStore(temporary)


def discuss(task: Task, store: PayloadStore, *, folder: Path | None = None, watch: Watch | None = None) -> Run:
    """Run a task to its end and return its record; `folder` keeps it there while it grows.

    Raises:
        SottovoceError: the run failed; the record in `folder` says why, unless nothing was said yet.
        KeyboardInterrupt: it was stopped.
        Exception: whatever else ended it, recorded too: a hosted model's provider has errors of its own.
    """
    run = Run(scheme=task.scheme, settings=task.settings.model_dump(mode="json"), question=task.question)
    run.origin = task.origin
    graph = scheme(task.scheme).create(task.settings, models=task.models, store=store).compile()
    asyncio.run(_follow(graph, run, folder, watch or (lambda run, event: None)))
    return run


async def _follow(graph: Graph, run: Run, folder: Path | None, watch: Watch) -> None:
    began = time.monotonic()
    try:
        async with aclosing(events(graph, run.question)) as following:
            async for event in following:
                run.seconds = round(time.monotonic() - began, 3)
                if _take(run, event) and folder is not None:
                    save(run, folder)
                watch(run, event)
    except BaseException as error:
        _fail(run, error)
        if folder is not None:
            with suppress(RecordError):  # the disk may be full: the first error counts
                _leave(run, error, folder)
        raise


def _take(run: Run, event: Event) -> bool:
    """Enter an event into the record; tells whether it changed."""
    match event:
        case Opened(notes, settings, groups):
            run.notes, run.settings, run.levels = list(notes), settings, [Level(round=0, groups=groups)]
        case Spoke(_, message):
            run.messages = Board(list[Message]).from_checkpoint([*run.messages, message]).get()
            _account(run, message)
        case Counted(round, votes):
            run.counts = [*run.counts, Count(round=round, votes=votes)]
        case Regrouped(_, round, groups):
            run.levels = [*run.levels, Level(round=round, groups=groups)]
        case Decided(decision):
            run.decision, run.status = decision, "done"
        case _:
            return False
    return True


def _account(run: Run, message: Message) -> None:
    """What the message cost, and whose model made it."""
    if message.source in ("model", "hosted"):
        run.usage.calls += 1
        run.usage.tokens_in += int(message.stats.get("tokens_in", 0))
        run.usage.tokens_out += int(message.stats.get("tokens_out", 0))
    if message.payload is not None and message.agent not in run.models:
        with suppress(PayloadError):
            label = message.payload.load().label
            run.models[message.agent] = Speaker(model=label.model, weights=label.weights, vocabulary=label.vocabulary)
            agents = [each.agent for each in run.messages]  # the board's order, not that of time
            run.models = {agent: run.models[agent] for agent in dict.fromkeys(agents) if agent in run.models}


def _fail(run: Run, error: BaseException) -> None:
    if isinstance(error, (asyncio.CancelledError, KeyboardInterrupt)):
        run.status = "stopped"
    else:
        run.status = "failed"
        own = str(error) if isinstance(error, SottovoceError) else failure(error)
        run.error = own or f"{type(error).__name__}: {error}"


def _leave(run: Run, error: BaseException, folder: Path) -> None:
    """A run that was refused before anything was said leaves nothing, so that it can be corrected and run again."""
    if isinstance(error, UsageError) and not run.messages:
        discard(folder)
    else:
        save(run, folder)
