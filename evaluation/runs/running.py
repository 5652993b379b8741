"""Hold the discussions of a run, many at once on one graph.

The graph runs on an event loop, so that a stop (Ctrl-C) cancels what the agents' models are at,
instead of waiting for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sottovoce.channels.store import PayloadStore
from sottovoce.errors import PayloadError, RecordError, UsageError, command
from sottovoce.evaluation.runs.cluster import hold_on_cluster
from sottovoce.evaluation.runs.going import Going, Person, Saver
from sottovoce.evaluation.runs.head import head_of
from sottovoce.evaluation.runs.limits import Limits
from sottovoce.evaluation.runs.log import FULL
from sottovoce.evaluation.runs.record import Record
from sottovoce.evaluation.runs.run import PAYLOADS, Key, Observer, Run
from sottovoce.evaluation.runs.saver import CHECKPOINTS, FILE, Writes, place_of, saver
from sottovoce.graphs import scheme
from sottovoce.graphs.saver import is_of_saver, kind_of, told_of
from sottovoce.nodes.given import Models
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import Settings
from sottovoce.nodes.watch import Watch

SYNC = 1.0
"""Seconds between two times at which the disk is made to have the log: a power cut takes no more, a kill nothing."""


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
    """The store of a run: in its folder, or in one that is removed at the end."""
    if folder is not None:
        yield PayloadStore(folder / PAYLOADS)
        return
    with TemporaryDirectory(prefix="sottovoce-", ignore_cleanup_errors=True) as temporary:
        yield PayloadStore(temporary)


def hold(
    task: Task,
    store: PayloadStore,
    *,
    folder: Path | None = None,
    observe: Observer | None = None,
    person: Person | None = None,
) -> Record:
    """Hold one discussion to its end and return its record; `folder` keeps it as a run, step by step.

    `observe` is shown what happens; `person` answers where a person has a seat or gets one, or approves.

    Raises:
        SottovoceError: it failed; the run in `folder` says why, unless nothing was said yet.
        KeyboardInterrupt: it was stopped.
        Exception: whatever else ended it, recorded too: a hosted model's provider has errors of its own.
    """
    head = head_of(task.scheme, task.settings, [task.question], origin=task.origin, models=task.models)
    run = Run.begin(head, [task.question], folder)
    hold_all(
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


def hold_all(
    run: Run,
    settings: Settings,
    store: PayloadStore,
    *,
    models: Models = None,
    watch: Watch | None = None,
    observe: Observer | None = None,
    limits: Limits | None = None,
    alone: bool = False,
    person: Person | None = None,
) -> None:
    """Hold the discussions of a run that are not over, and close it.

    Args:
        run: New, or one that was resumed.
        settings: Those of its head.
        store: Where payloads go.
        models: See `Task`, as for `watch`.
        observe: Is shown what happens.
        limits: Stop the run when one is reached.
        alone: Whether it is a single discussion: what an agent says is told while it grows, and what ends it is raised.
        person: Who answers where a person has a seat or gets one, or approves.

    Raises:
        SottovoceError: the run cannot be held, or kept (the disk is full), or its only discussion failed.
        KeyboardInterrupt: it was stopped.
    """
    observing = observe or (lambda record, event: None)
    if limits is not None and limits.lost == "words":
        store.lost = "words"
    pool = Pool(run, settings.names(), observing, limits or Limits(), alone=alone, person=person)
    try:
        if person is None and (settings.asks_people or _hands_over(settings, watch)):
            raise UsageError("a person takes part in it, and nobody is there who answers; hold it by its own command")
        if limits is not None and limits.workers:
            _check_for_workers(settings, limits, models, watch)
            over = hold_on_cluster(hold_all, run, settings, store, limits, observing)
        else:
            graph = scheme(run.head.scheme).create(settings, models=models, store=store, watch=watch)
            asyncio.run(pool.hold(graph))
            over = pool.over
        run.end(over)
        _clear(run)
    except Exception as error:
        of_saver = is_of_saver(error)
        if (of_saver or isinstance(error, (UsageError, RecordError))) and not run.spoken:
            run.discard()  # what was refused before anything was said leaves nothing: it is corrected and run again
        if of_saver:
            why = told_of(error, place_of(limits.saver if limits else None, run.folder))
            raise RecordError(f"the checkpoints of {str(run.folder)!r} cannot be written: {_mended(why)}") from None
        if _is_full(error) and run.spoken:
            name = str(run.folder)
            again = command("runs", "resume", name)
            raise RecordError(f"run {name!r}: the disk is full; make room, and {again} goes on") from error
        raise
    finally:
        run.close()


def _hands_over(settings: Settings, watch: Watch | None) -> bool:
    """Whether a seat may become a person's."""
    return bool((watch or settings.watch) and settings.intervention == "human")


def _check_for_workers(settings: Settings, limits: Limits, models: Models, watch: Watch | None) -> None:
    """Refuse what cannot be sent to another process."""
    if models is not None or watch is not None:
        raise UsageError("workers make their models and monitors from the settings; name them there, or drop --workers")
    if settings.asks_people or _hands_over(settings, watch):
        raise UsageError("workers cannot ask a person; drop --workers, or let models alone take part")
    if limits.saver is not None:
        raise UsageError("workers keep checkpoints of their own; leave out --saver, or --workers")


def _clear(run: Run) -> None:
    """Remove the checkpoints of a run in which every discussion has its decision: the log has all of it."""
    if run.folder is not None and run.status == "done":
        for name in CHECKPOINTS:
            (run.folder / name).unlink(missing_ok=True)


class Pool:
    """The discussions of a run, so many at once."""

    def __init__(
        self,
        run: Run,
        agents: list[str],
        observe: Observer,
        limits: Limits,
        *,
        alone: bool,
        person: Person | None = None,
    ) -> None:
        self.over = ""
        """Which limit was reached."""
        self._run, self._agents, self._observe, self._limits, self._alone = run, agents, observe, limits, alone
        self._person = person
        self._going: dict[str, Going] = {}
        self._workers: list[asyncio.Task[None]] = []

    async def hold(self, graph: Any) -> None:  # Any: a StateGraph
        """Hold all that are not over, or as many as the limits let."""
        waiting, place = iter(self._run.unfinished), place_of(self._limits.saver, self._run.folder)
        async with saver(place, self._committed) as opened:
            self._run.keep_in(kind_of(place))
            compiled = graph.compile(checkpointer=opened)
            workers = [self._work(waiting, compiled, opened) for _ in range(self._limits.at_once)]
            self._workers = [asyncio.create_task(each) for each in (*workers, self._sync())]
            timer = self._after(self._limits.time_limit)
            ended = await asyncio.gather(*self._workers[:-1], return_exceptions=True)
            self._stop()
            if timer is not None:
                timer.cancel()
        errors = [error for error in ended if error is not None]
        errors.sort(key=lambda error: isinstance(error, asyncio.CancelledError))  # first what made the others stop
        if errors and not (self.over and isinstance(errors[0], asyncio.CancelledError)):
            raise errors[0]

    async def _work(self, waiting: Iterator[Key], graph: Any, opened: Saver) -> None:  # Any: a compiled graph
        """One after another of those that wait."""
        for key in waiting:
            going = Going(self._run, key, self._observe, self._agents, self._person)
            self._going[going.thread] = going
            try:
                await going.hold(graph, opened, live=self._alone)
            except Exception as error:
                if not self._failed(going, error):
                    self._stop()
                    raise
            finally:
                del self._going[going.thread]

    def _failed(self, going: Going, error: Exception) -> bool:
        """Note a discussion that failed; tells whether the run goes on."""
        if _of_the_disk(error) or (isinstance(error, UsageError) and not self._run.spoken):
            return False
        with suppress(RecordError):  # the disk may be full by now: the first error counts
            going.fail(error)
        return not self._alone and going.broken is None

    def _committed(self, thread: str, task: str, writes: Writes) -> None:
        if thread in self._going:
            self._going[thread].committed(task, writes)
            if self._limits.counts:
                cost = self._run.cost
                self._stop_if(self._limits.reached(cost.calls, cost.tokens_in + cost.tokens_out))

    def _stop_if(self, why: str) -> None:
        if why:
            self._stop(why)

    def _stop(self, why: str = "") -> None:
        """Cancel what is under way."""
        self.over = self.over or why
        for worker in self._workers:
            worker.cancel()

    def _after(self, seconds: float | None) -> asyncio.TimerHandle | None:
        if seconds is None:
            return None
        return asyncio.get_running_loop().call_later(seconds, self._stop, self._limits.out_of_time())

    async def _sync(self) -> None:
        """See to it that the log reaches the disk."""
        while True:
            await asyncio.sleep(SYNC)
            await asyncio.to_thread(self._run.sync)


def _mended(why: str) -> str:
    """With what to do where SQLite's file itself is damaged."""
    return f"{why}; delete {FILE} there, and what is not over begins anew" if "malformed" in why else why


def _is_full(error: BaseException) -> bool:
    """Whether there is no room: told by the system, or by a payload store in its own words."""
    told = error.__cause__ if isinstance(error, PayloadError) else error
    return isinstance(told, OSError) and told.errno in FULL


def _of_the_disk(error: Exception) -> bool:
    """Whether the run cannot be kept: no other discussion could be either."""
    return _is_full(error) or isinstance(error, RecordError) or is_of_saver(error)
