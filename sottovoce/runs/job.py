"""A long job: one run or several under common limits, with progress, Ctrl-C, failures and a last line.

Commands that run discussions or build an index end here: all of them say in the same words what is saved, and how to
resume. Nothing here imports torch or langgraph before a run starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from sottovoce.core.errors import SottovoceError, StoppedError, command
from sottovoce.runs.limits import Limits
from sottovoce.runs.run_directory import run_name

if TYPE_CHECKING:
    from sottovoce.nodes.context import Models
    from sottovoce.nodes.settings import Settings
    from sottovoce.runs.run import Observer, Run

Show = Callable[[str, "Run"], AbstractContextManager["Observer | None"]]
"""A function of a run's name and the run; it returns a context manager that yields the run's observer."""
SAME_COMMAND = "the same command"


class LimitReached(SottovoceError):
    """A limit for all runs of a job together, which stopped it."""

    def __init__(self, reason: str) -> None:
        """Take the reason in words, such as "the call limit is reached: 6 of 6"."""
        super().__init__(f"{reason}; run {SAME_COMMAND} to continue, with a higher limit or none")
        self.reason = reason


class Job:
    """Runs that follow one another under common limits, counted from the moment the job is made."""

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

        Errors: see `runner.run_all`.
        """
        from sottovoce.runs.runner import run_all

        self._forget_prefixes(settings)
        with self.show(name, run) if self.show else nullcontext() as observe:
            run_all(run, settings, run.store(), models=self.models, observe=observe, limits=self._left(others))

    def reached(self, runs: Iterable[Run]) -> str:
        """Return the limit that the runs have reached together, in words; empty if none."""
        limit = self.limits.time_limit
        late = limit is not None and time.monotonic() - self._start >= limit
        return self.limits.reached(*_spent(runs)) or (self.limits.out_of_time() if late else "")

    def _left(self, others: Iterable[Run]) -> Limits:
        (calls, tokens), limits = _spent(others), self.limits
        left = {
            "call_limit": limits.call_limit and limits.call_limit - calls,
            "token_limit": limits.token_limit and limits.token_limit - tokens,
            "time_limit": limits.time_limit and limits.time_limit - (time.monotonic() - self._start),
        }
        return limits.model_copy(update=left)

    def _forget_prefixes(self, settings: Settings) -> None:
        """Drop what models cached in earlier runs: a result must not depend on the order of the runs."""
        from sottovoce.agents.hooked import HookedChatModel
        from sottovoce.nodes.context import made_from

        for agent in settings.names() if self.models is None else ():
            if isinstance(model := made_from(settings, agent), HookedChatModel):
                model.loaded.engine.forget()


def _spent(runs: Iterable[Run]) -> tuple[int, int]:
    costs = [run.cost for run in runs]
    return sum(cost.calls for cost in costs), sum(cost.total for cost in costs)


@contextmanager
def resumable(saved: str) -> Iterator[None]:
    """Turn Ctrl-C into the error that says what is saved, and that the same command resumes."""
    try:
        yield
    except KeyboardInterrupt as stop:
        raise StoppedError(f"stopped; {saved}, and {SAME_COMMAND} resumes") from stop


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
    """Return the command that resumes a run, in backquotes."""
    return command("runs", "resume", run_name(run.folder) if run.folder else "")


def check_failures(runs: Iterable[Run]) -> None:
    """Check that no discussion failed.

    Raises:
        SottovoceError: the number of failed discussions, and the first error.
    """
    records = [record for run in runs for record in run.records.values()]
    failed = [record for record in records if record.status == "failed"]
    if failed:
        raise SottovoceError(f"{len(failed)} of {len(records)} discussions failed; the first error: {failed[0].error}")
