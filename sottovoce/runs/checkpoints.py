"""Checkpoint savers of runs: where checkpoints are saved, and how a run learns what was committed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver

from sottovoce.graphs.runtime.saver import kind_of, open_saver

FILE = "checkpoints.sqlite"
CHECKPOINTS = (FILE, f"{FILE}-wal", f"{FILE}-shm")
"""The file, and those that SQLite puts next to it."""
ERROR = "__error__"
"""The channel of a task's error: only its class is saved, since a provider's error may quote the user's key."""
Writes = Sequence[tuple[str, Any]]  # Any: plain JSON, and LangGraph's own marks
"""Channel and value of each write of a task."""
Report = Callable[[str, str, Writes], None]
"""A callback that gets the thread, the task and its writes, once they are committed."""


class _ReportingSaver(BaseCheckpointSaver[str]):
    """A saver that reports a task's writes after they were saved, in their order."""

    report: Report | None = None

    async def aput_writes(self, config: RunnableConfig, writes: Writes, task_id: str, task_path: str = "") -> None:
        plain = [(channel, type(value).__name__ if channel == ERROR else value) for channel, value in writes]
        await super().aput_writes(config, plain, task_id, task_path)
        if self.report is not None:
            self.report(config["configurable"]["thread_id"], task_id, writes)


def place_of(saver: str | None, folder: Path | None) -> str | Path:
    """Return the place of a run's checkpoints: as `--saver` says, else in its directory; without one, in memory."""
    if saver in (None, "sqlite"):
        return "memory" if folder is None else folder / FILE
    assert saver is not None, "checked above"
    return saver


@asynccontextmanager
async def saver(where: str | Path, report: Report | None = None) -> AsyncIterator[BaseCheckpointSaver[str]]:
    """Open a saver that reports what is committed, in a place that `open_saver` accepts. Errors: as there."""
    async with open_saver(where, also=_ReportingSaver) as opened:
        opened.report = report  # type: ignore[attr-defined]  # of _ReportingSaver
        if kind_of(where) == "sqlite":
            # A commit that waits for the disk takes 10 ms and more, and a killed process loses none either way. After
            # a power cut the checkpoints may be behind the log: then the discussion restarts (`LiveDiscussion`).
            await opened.conn.execute("PRAGMA synchronous=NORMAL")  # type: ignore[attr-defined]  # of aiosqlite
        yield opened
