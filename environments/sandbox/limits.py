"""What a program may use, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from sottovoce.errors import UsageError

MIB = 1 << 20
SMALLEST_MEMORY = 64 * MIB
"""Bytes; Python itself takes half of that."""
Status = Literal["ok", "error", "timeout", "memory", "output", "refused"]


@dataclass(frozen=True)
class Limits:
    """What a program may use; beyond it, it is ended with all that it started.

    Raises:
        UsageError: a limit is not above zero, or leaves Python itself no room.
    """

    seconds: float = 5.0
    """Of the clock, from its start; of the processor the same, rounded up to whole seconds."""
    memory: int = 512 * MIB
    """Bytes of address space of each process, and bytes in memory of all of them together. Where processes share
    memory after a fork, it counts for each."""
    processes: int = 16
    """Processes and threads at a time."""
    file_size: int = 16 * MIB
    """Bytes of the longest file."""
    open_files: int = 64
    scratch: int = 32 * MIB
    """Bytes of all files in the scratch folder, where that is held in memory: in all backends but `limits`."""
    output: int = 64 << 10
    """Bytes of stdout and stderr together."""

    def __post_init__(self) -> None:
        """Refuse what no program can run in."""
        for field in fields(self):
            if not (value := getattr(self, field.name)) > 0:
                raise UsageError(f"a sandbox has {field.name} {value!r}; expected more than 0")
        if self.memory < SMALLEST_MEMORY:
            raise UsageError(f"a sandbox has memory {self.memory}; expected at least {SMALLEST_MEMORY} bytes")


@dataclass(frozen=True)
class Outcome:
    """What came of a program; the status is measured from outside of it, so that it cannot claim another.

    `memory` is the one that rests on its word in part: a MemoryError that it did not catch.
    """

    status: Status
    stdout: str = ""
    stderr: str = ""
    """With the traceback, where the status is `error`."""
    seconds: float = 0.0
    """Of the clock, from its start until nothing was left of it."""
    reason: str = ""
    """One line: why it was refused, or which limit or signal ended it."""


def refused(reason: str) -> Outcome:
    """The outcome of a program that did not run."""
    return Outcome("refused", reason=reason)
