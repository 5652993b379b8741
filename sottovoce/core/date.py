"""The moment at which a run started: chat templates print its date, also when the run resumes or is re-run later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime

STARTED: ContextVar[datetime | None] = ContextVar("started", default=None)
"""None outside of runs, where templates ask the clock."""


@contextmanager
def started_at(moment: datetime) -> Iterator[None]:
    """Let chat templates print the date of this moment, in the block and in the tasks that it starts."""
    token = STARTED.set(moment)
    try:
        yield
    finally:
        STARTED.reset(token)
