"""The progress of a run of many discussions: a bar with rate, time left and score, or a line now and then."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from sottovoce.report.tables import moves
from sottovoce.runs.events import Event
from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.run import Run

BETWEEN = 30.0
"""Seconds between two lines if there is no terminal."""


class RunProgress:
    """An observer of a run; a context manager."""

    def __init__(self, console: Console, run: Run) -> None:
        """Start before the run resumes: discussions that are over count for the score, and not for the rate."""
        self._console, self._run = console, run
        self._before = self._over()
        self._began = self._last_line = time.monotonic()
        self._bar = Progress(
            BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.fields[line]}"), console=console
        )
        self._task = self._bar.add_task("", total=len(run.records), completed=self._before, line="")

    def __enter__(self) -> Self:
        if moves(self._console):
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if moves(self._console):  # else rich prints an empty line
            self._bar.stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop redrawing while somebody types."""
        self._bar.stop()
        yield
        if moves(self._console):
            self._bar.start()

    def observe(self, record: DiscussionRecord, event: Event) -> None:
        """Update the progress when a discussion is done."""
        if record.status != "done":
            return
        line, now = self.line(), time.monotonic()
        self._bar.update(self._task, completed=self._over(), line=line)
        if not moves(self._console) and now - self._last_line >= BETWEEN:
            self._last_line = now
            self._console.print(f"{self._over()} of {len(self._run.records)}: {line}", soft_wrap=True)

    def line(self) -> str:
        """Return rate, time left and score so far."""
        over, minutes = self._over() - self._before, (time.monotonic() - self._began) / 60
        counts = self._run.counts
        parts = [f"{over / minutes:.0f} a minute" if over else "none yet"]
        if over and (left := counts.discussions - self._over()):
            parts.append(f"{timedelta(seconds=round(left * minutes * 60 / over))} left")
        if counts.scored:
            parts.append(f"{counts.score / counts.scored:.0%} right")
        parts += [f"{n} {name}" for name, n in (("abstained", counts.abstained), ("failed", counts.failed)) if n]
        return ", ".join(parts)

    def _over(self) -> int:
        counts = self._run.counts
        return counts.done + counts.failed
