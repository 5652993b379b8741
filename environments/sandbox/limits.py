"""Resource limits and outcomes of sandboxed programs."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from sottovoce.core.errors import UsageError

MIB = 1 << 20
SMALLEST_MEMORY = 64 * MIB
"""Bytes; Python itself takes half of them."""
Status = Literal["ok", "error", "timeout", "memory", "output", "refused"]


@dataclass(frozen=True)
class Limits:
    """Resource limits of a program; if it exceeds one, it is ended with all processes that it started.

    Raises:
        UsageError: a limit is not above zero, or the memory is too small for Python itself.
    """

    seconds: float = 5.0
    """Wall time since the start; CPU time has the same limit, rounded up to whole seconds."""
    memory: int = 512 * MIB
    """Bytes of address space of each process, and bytes of resident memory of all processes together. Memory that
    processes share after a fork counts for each."""
    processes: int = 16
    """Number of processes and threads at a time."""
    file_size: int = 16 * MIB
    """Bytes of the largest file."""
    open_files: int = 64
    scratch: int = 32 * MIB
    """Bytes of all files in the scratch directory, which is in memory in all backends except `limits`."""
    output: int = 64 << 10
    """Bytes of stdout and stderr together."""

    def __post_init__(self) -> None:
        """Check that a program can run within the limits."""
        for field in fields(self):
            if not (value := getattr(self, field.name)) > 0:
                raise UsageError(f"a sandbox has {field.name} {value!r}; expected more than 0")
        if self.memory < SMALLEST_MEMORY:
            raise UsageError(f"a sandbox has memory {self.memory}; expected at least {SMALLEST_MEMORY} bytes")


@dataclass(frozen=True)
class Outcome:
    """The outcome of a program; the status is determined from outside, so that the program cannot fake it.

    Only `memory` depends in part on the program: on a MemoryError that it did not catch.
    """

    status: Status
    stdout: str = ""
    stderr: str = ""
    """Includes the traceback if the status is `error`."""
    seconds: float = 0.0
    """Wall time from the start until all its processes had ended."""
    reason: str = ""
    """One line: why it was refused, which limit or signal ended it, or its error."""


def refused(reason: str) -> Outcome:
    """Return the outcome of a program that did not run."""
    return Outcome("refused", reason=reason)
