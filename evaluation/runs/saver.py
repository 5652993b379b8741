"""Where the checkpoints of runs lie, and how a run hears what was committed to them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

SaverKind = Literal["none", "memory", "sqlite"]
FILE = "checkpoints.sqlite"
CHECKPOINTS = (FILE, f"{FILE}-wal", f"{FILE}-shm")
"""The file, and those that SQLite has beside it."""
ERROR = "__error__"
"""The channel of what a task raised: kept by its class alone, since a provider's error may quote the user's key."""
Writes = Sequence[tuple[str, Any]]  # Any: plain JSON, and LangGraph's own marks
"""Channel and value, as a task wrote them."""
Tell = Callable[[str, str, Writes], None]
"""Is told the thread, the task and what it wrote, once that is committed."""


class _Telling(BaseCheckpointSaver[str]):
    """A saver that tells of a task's writes after they were saved, in their order."""

    tell: Tell | None = None

    async def aput_writes(self, config: RunnableConfig, writes: Writes, task_id: str, task_path: str = "") -> None:
        plain = [(channel, type(value).__name__ if channel == ERROR else value) for channel, value in writes]
        await super().aput_writes(config, plain, task_id, task_path)
        if self.tell is not None:
            self.tell(config["configurable"]["thread_id"], task_id, writes)


class _Memory(_Telling, InMemorySaver):
    pass


class _Sqlite(_Telling, AsyncSqliteSaver):
    pass


@asynccontextmanager
async def saver(
    kind: SaverKind, folder: Path | None = None, tell: Tell | None = None
) -> AsyncIterator[BaseCheckpointSaver[str] | None]:
    """A checkpoint saver for plain JSON: none, in memory, or `checkpoints.sqlite` in a folder.

    What is no plain JSON is refused on the way in, and nothing is ever unpickled.
    """
    plain = JsonPlusSerializer(allowed_msgpack_modules=None)
    if kind == "none":
        yield None
    elif kind == "memory":
        memory = _Memory(serde=plain)
        memory.tell = tell
        yield memory
    else:
        assert folder is not None, "a file has a folder"
        async with _Sqlite.from_conn_string(str(folder / FILE)) as opened:
            opened.serde, opened.tell = plain, tell  # type: ignore[attr-defined]  # it is made by its class
            yield opened
