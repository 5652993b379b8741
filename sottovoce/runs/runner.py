"""The runner: it starts or resumes a run, and runs its discussions, many at once, on one graph.

The graph runs on the process's event loop, so a stop (Ctrl-C) cancels the models' calls instead of waiting for them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from langgraph.checkpoint.memory import InMemorySaver

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.channels.message import Message
from sottovoce.channels.store import PayloadStore
from sottovoce.core.any_types import AnyState
from sottovoce.core.date import started_at
from sottovoce.core.errors import PayloadError, RecordError, SottovoceError, StoppedError, UsageError, command
from sottovoce.core.event_loop import wait
from sottovoce.core.trust import needed
from sottovoce.graphs import scheme
from sottovoce.nodes.context import Models, made_from
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import Settings
from sottovoce.nodes.watch import Watch
from sottovoce.runs import run_directory
from sottovoce.runs.cost import summed
from sottovoce.runs.discussion import HumanReply, LiveDiscussion
from sottovoce.runs.limits import SAME_COMMAND, Limits
from sottovoce.runs.log import Event, Key
from sottovoce.runs.manifest import RunManifest, new_manifest
from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.run import PAYLOADS, Observer, Run, load_run
from sottovoce.runs.run_directory import FULL, LOG, run_name

Show = Callable[[str, Run], AbstractContextManager[Observer | None]]
"""A function of a run's name and the run; it returns a context manager that yields the run's observer."""
SYNC = 1.0
"""Seconds between two syncs of the log to the disk: a power cut loses no more than that, a kill loses nothing."""


def start_run(manifest: RunManifest, questions: Sequence[Question], folder: Path | None = None) -> Run:
    """Start a run, in `folder` or in the default place. Errors: see `Run.start`."""
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
    settings = settings or run.manifest.own_settings()
    now = now or new_manifest(
        run.manifest.scheme, settings, run.questions(), run.manifest.seeds, run.manifest.origin, models=models
    )
    run.notes += run.manifest.check_same(now, str(run.folder))
    run.resume()
    return run


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
    runner = Runner(run, settings, observing, limits or Limits(), alone=alone, person=person)
    try:
        if person is None and (settings.asks_people or _hands_over(settings, watch)):
            raise UsageError("a human takes part in this run, but nobody can reply here; use its scheme's command")
        if limits is not None and limits.workers:
            if models is not None or watch is not None:
                made = "workers create models and monitors from the settings"
                raise UsageError(f"{made}; name them in the settings, or drop `workers=`")
            if settings.asks_people or _hands_over(settings, watch):
                raise UsageError("workers cannot ask a human; drop `workers=`, or let only models take part")
            from sottovoce.runs.cluster import run_on_cluster  # late: few runs need it

            over = run_on_cluster(run_all, run, settings, store, limits, observing)
        else:
            graph = scheme(run.manifest.scheme).create(settings, models=models, store=store, watch=watch)
            with started_at(datetime.fromisoformat(run.manifest.started)):
                wait(runner.run(graph))
            over = runner.over
        run.end(over)
    except Exception as error:
        if isinstance(error, (UsageError, RecordError)) and not run.spoken:
            run.close(discard=True)  # refused before anything was said: it can be corrected and run again
        if _is_full(error) and run.spoken:
            name = str(run.folder)
            again = f"free some space, then continue with {resume_command(run)}"
            raise RecordError(f"run {name!r}: the disk is full; {again}") from error
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
        settings: Settings,
        observe: Observer,
        limits: Limits,
        *,
        alone: bool,
        person: HumanReply | None = None,
    ) -> None:
        self.over = ""
        """The limit that was reached, in words; empty if none was."""
        self._run, self._settings, self._observe, self._limits, self._alone = run, settings, observe, limits, alone
        self._person = person
        self._workers: list[asyncio.Task[None]] = []

    async def run(self, graph: AnyState) -> None:
        """Run all unfinished discussions, or as many as the limits allow."""
        if self._run.unfinished and (why := self._reached()):
            self.over = why  # a resumed run makes no call beyond its limit
            return
        waiting = iter(self._run.unfinished)
        compiled = graph.compile(checkpointer=InMemorySaver() if self._person else None)  # it has requests to humans
        workers = [self._work(waiting, compiled) for _ in range(self._limits.at_once)]
        self._workers = [asyncio.create_task(worker) for worker in workers]
        loop, syncing, limit = asyncio.get_running_loop(), asyncio.create_task(self._sync()), self._limits.time_limit
        timer = None if limit is None else loop.call_later(limit, self._stop, self._limits.out_of_time())
        try:
            ended = await asyncio.gather(*self._workers, return_exceptions=True)
        finally:
            syncing.cancel()
            if timer is not None:
                timer.cancel()
        errors = [error for error in ended if error is not None]
        errors.sort(key=lambda error: isinstance(error, asyncio.CancelledError))  # the cause before the cancellations
        if errors and not (self.over and isinstance(errors[0], asyncio.CancelledError)):
            raise errors[0]

    async def _work(self, waiting: Iterator[Key], graph: AnyState) -> None:
        for key in waiting:
            discussion = LiveDiscussion(self._run, key, self._observed, self._settings, self._person)
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
        return self._limits.reached(self._run.cost)

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


# Several runs


class LimitReached(SottovoceError):
    """A limit on all runs of a job was reached, so the job stopped."""

    def __init__(self, reason: str) -> None:
        """Take the reason in words, such as "the call limit is reached: 6 of 6"."""
        super().__init__(f"{reason}; run {SAME_COMMAND} to continue, with a higher limit or none")
        self.reason = reason


class Job:
    """Successive runs under common limits, which count from the creation of the job."""

    def __init__(self, limits: Limits | None = None, show: Show | None = None, models: Models = None) -> None:
        """Start the clock of the limits.

        Args:
            limits: The limits for all runs together.
            show: Shows the progress of a run.
            models: Chat models of the agents; None loads those that the settings name.
        """
        self.limits, self.show, self.models = limits or Limits(), show, models
        self._start = time.monotonic()

    def run(self, name: str, run: Run, settings: Settings, others: Iterable[Run] = ()) -> None:
        """Run the unfinished discussions of a run; `others` have used up a part of the limits.

        Errors: see `run_all`.
        """
        for agent in settings.names() if self.models is None else ():
            if isinstance(model := made_from(settings, agent), HookedChatModel):
                model.loaded.engine.forget()  # a result must not depend on the order of the runs
        with self.show(name, run) if self.show else nullcontext() as observe:
            run_all(run, settings, run.store(), models=self.models, observe=observe, limits=self._left(others))

    def reached(self, runs: Iterable[Run]) -> str:
        """Return the limit that the runs have reached together, in words; empty without one."""
        return self.limits.reached(summed(run.cost for run in runs), time.monotonic() - self._start)

    def _left(self, others: Iterable[Run]) -> Limits:
        spent, limits = summed(run.cost for run in others), self.limits
        left = {
            "call_limit": limits.call_limit and limits.call_limit - spent.calls,
            "token_limit": limits.token_limit and limits.token_limit - spent.total,
            "time_limit": limits.time_limit and limits.time_limit - (time.monotonic() - self._start),
        }
        return limits.model_copy(update=left)


@contextmanager
def resumable_run(run: Run) -> Iterator[None]:
    """Turn Ctrl-C into the error that says how to resume a run, unless nothing is saved of it.

    Raises:
        StoppedError: the user stopped the run.
        KeyboardInterrupt: likewise, and nobody has spoken, or the run has no directory.
    """
    try:
        yield
    except KeyboardInterrupt as stop:
        if run.folder is None or not run.spoken:
            raise
        raise StoppedError(f"stopped; all messages are saved, and {resume_command(run)} resumes") from stop


def resume_command(run: Run) -> str:
    """Return the command that resumes a run of this process, in backquotes; it gives the run the same permissions."""
    options = needed(run.manifest.all_settings(), run.folder.parent) if run.folder else []
    return command("runs", "resume", run_name(run.folder) if run.folder else "", *options)


def check_failures(runs: Iterable[Run]) -> None:
    """Check that no discussion failed.

    Raises:
        SottovoceError: the number of failed discussions, and the first error.
    """
    records = [record for run in runs for record in run.records.values()]
    failed = [record for record in records if record.status == "failed"]
    if failed:
        raise SottovoceError(f"{len(failed)} of {len(records)} discussions failed; the first error: {failed[0].error}")
