"""The runner: it runs the discussions of a run, many at once, on one graph.

The graph runs on an event loop, so a stop (Ctrl-C) cancels the models' calls instead of waiting for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from sottovoce.channels.message import Message
from sottovoce.channels.store import PayloadStore
from sottovoce.core.any_types import AnyState
from sottovoce.core.errors import PayloadError, RecordError, UsageError, command
from sottovoce.core.event_loop import may_wait
from sottovoce.graphs import scheme
from sottovoce.nodes.context import Models
from sottovoce.nodes.settings import Settings
from sottovoce.nodes.watch import Watch
from sottovoce.runs.cluster import run_on_cluster
from sottovoce.runs.discussion import HumanReply, LiveDiscussion, recorded
from sottovoce.runs.events import Event
from sottovoce.runs.limits import Limits
from sottovoce.runs.log import FULL
from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.run import PAYLOADS, Key, Observer, Run

SYNC = 1.0
"""Seconds between two syncs of the log to the disk: a power cut loses no more than that, a kill loses nothing."""


@contextmanager
def payload_store(folder: Path | None) -> Iterator[PayloadStore]:
    """Yield the payload store of a run: in its directory, or in a temporary one that is deleted at the end."""
    if folder is not None:
        yield PayloadStore(folder / PAYLOADS)
        return
    with TemporaryDirectory(prefix="sottovoce-", ignore_cleanup_errors=True) as temporary:
        yield PayloadStore(temporary)


def run_all(
    run: Run,
    settings: Settings,
    store: PayloadStore,
    *,
    models: Models = None,
    watch: Watch | None = None,
    observe: Observer | None = None,
    limits: Limits | None = None,
    alone: bool = False,
    person: HumanReply | None = None,
) -> None:
    """Run the unfinished discussions of a run, and close it.

    Args:
        run: A new run, or a resumed one.
        settings: The settings of its manifest.
        store: The store for payloads.
        models: Chat models of the agents; None loads those that the settings name.
        watch: Checks each message before it is published.
        observe: Called with each event.
        limits: The run stops when one is reached.
        alone: True for a single discussion: replies are streamed to `observe`, and the error that ends it is raised.
        person: Replies when a human plays or takes over an agent, or must approve.

    Raises:
        SottovoceError: the run cannot be run or saved (the disk is full), or its only discussion failed.
        KeyboardInterrupt: it was stopped.
    """
    observing = observe or (lambda record, event: None)
    if limits is not None and limits.lost == "words":
        store.on_missing = "words"
    runner = Runner(run, settings.names(), observing, limits or Limits(), alone=alone, person=person)
    try:
        if person is None and (settings.asks_people or _hands_over(settings, watch)):
            raise UsageError("a human takes part in it, but nobody can answer here; run it with its scheme's command")
        if limits is not None and limits.workers:
            if models is not None or watch is not None:
                made = "workers make their models and monitors from the settings"
                raise UsageError(f"{made}; name them there, or drop --workers")
            if settings.asks_people or _hands_over(settings, watch):
                raise UsageError("workers cannot ask a human; drop --workers, or let only models take part")
            over = run_on_cluster(run_all, run, settings, store, limits, observing)
        else:
            graph = scheme(run.manifest.scheme).create(settings, models=models, store=store, watch=watch)
            asyncio.run(runner.run(graph))
            over = runner.over
        run.end(over)
    except Exception as error:
        if isinstance(error, (UsageError, RecordError)) and not run.spoken:
            run.close(discard=True)  # refused before anything was said: it can be corrected and run again
        if _is_full(error) and run.spoken:
            name = str(run.folder)
            again = command("runs", "resume", name)
            raise RecordError(f"run {name!r}: the disk is full; free some space, then continue with {again}") from error
        raise
    finally:
        run.close()


def _hands_over(settings: Settings, watch: Watch | None) -> bool:
    return bool((watch or settings.watch) and settings.intervention == "human")


class Runner:
    """The discussions of a run, run `Limits.at_once` at a time."""

    def __init__(
        self,
        run: Run,
        agents: list[str],
        observe: Observer,
        limits: Limits,
        *,
        alone: bool,
        person: HumanReply | None = None,
    ) -> None:
        self.over = ""
        """The limit that was reached, in words; empty if none was."""
        self._run, self._agents, self._observe, self._limits, self._alone = run, agents, observe, limits, alone
        self._person = person
        self._workers: list[asyncio.Task[None]] = []

    async def run(self, graph: AnyState) -> None:
        """Run all unfinished discussions, or as many as the limits allow."""
        may_wait()  # for files: this loop is ours
        if self._run.unfinished and (why := self._reached()):
            self.over = why  # a resumed run makes no call beyond its limit
            return
        waiting, compiled = iter(self._run.unfinished), recorded(graph, saver=self._person is not None)
        workers = [self._work(waiting, compiled) for _ in range(self._limits.at_once)]
        self._workers = [asyncio.create_task(each) for each in (*workers, self._sync())]
        limit, late = self._limits.time_limit, self._limits.out_of_time
        timer = None if limit is None else asyncio.get_running_loop().call_later(limit, self._stop, late())
        ended = await asyncio.gather(*self._workers[:-1], return_exceptions=True)
        self._stop()
        if timer is not None:
            timer.cancel()
        errors = [error for error in ended if error is not None]
        errors.sort(key=lambda error: isinstance(error, asyncio.CancelledError))  # the cause before the cancellations
        if errors and not (self.over and isinstance(errors[0], asyncio.CancelledError)):
            raise errors[0]

    async def _work(self, waiting: Iterator[Key], graph: AnyState) -> None:
        for key in waiting:
            discussion = LiveDiscussion(self._run, key, self._observed, self._agents, self._person)
            try:
                await discussion.run(graph, live=self._alone)
            except Exception as error:
                if not self._failed(discussion, error):
                    self._stop()
                    raise

    def _failed(self, discussion: LiveDiscussion, error: Exception) -> bool:
        """Record a failed discussion; return whether the run continues."""
        of_the_disk = _is_full(error) or isinstance(error, RecordError)  # that holds for all discussions
        if of_the_disk or (isinstance(error, UsageError) and not self._run.spoken):
            return False
        with suppress(RecordError):  # the disk may be full by now: the first error counts
            discussion.fail(error)
        return not self._alone and discussion.broken is None

    def _observed(self, record: DiscussionRecord, event: Event) -> None:
        """Show an event, and stop all discussions at a limit of calls or tokens."""
        self._observe(record, event)
        if isinstance(event, Message) and (why := self._reached()):
            self._stop(why)

    def _reached(self) -> str:
        if self._limits.call_limit is None and self._limits.token_limit is None:
            return ""
        cost = self._run.cost
        return self._limits.reached(cost.calls, cost.total)

    def _stop(self, why: str = "") -> None:
        self.over = self.over or why
        for worker in self._workers:
            worker.cancel()

    async def _sync(self) -> None:
        while True:
            await asyncio.sleep(SYNC)
            await asyncio.to_thread(self._run.sync)


def _is_full(error: BaseException) -> bool:
    """Return whether an error says that the disk is full, directly or as the cause of a PayloadError."""
    told = error.__cause__ if isinstance(error, PayloadError) else error
    return isinstance(told, OSError) and told.errno in FULL
