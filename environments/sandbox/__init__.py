"""A sandbox for Python programs that a model wrote: it runs them only in a requested backend.

Without isolation programs run only if that is confirmed.
"""

from __future__ import annotations

from functools import cache

from sottovoce.core.errors import UsageError, choose
from sottovoce.environments.sandbox.backends import BACKENDS, ISOLATED, is_root, missing
from sottovoce.environments.sandbox.limits import Limits, Outcome, Status, refused
from sottovoce.environments.sandbox.sandboxed_process import run_in

__all__ = ["Limits", "Outcome", "Status", "described", "run"]

ANY = "isolated"
"""The first of `ISOLATED` that this machine offers."""
OFF = f"the sandbox is off; name a backend to run programs: {ANY}, {', '.join(BACKENDS)}"
TEST_PROGRAM = "print('inside')"
NETWORK = "the network (unless the processor is x86-64 or ARM64)"
OPEN = f"{NETWORK}, the files and folders that all users may read or write"
OPEN_AS_US = f"{NETWORK}, every file of yours, the environment and the processes of yours, this one included"


def run(program: str, limits: Limits | None = None, backend: str | None = None, unsafe: bool = False) -> Outcome:
    """Run an untrusted Python program in a separate process, without packages and with an empty stdin.

    Backends: "isolated" (the best on this machine), "bwrap", "namespaces", "docker" or "docker:IMAGE", and "limits",
    which isolates nothing and therefore needs `unsafe`. "isolated" with `unsafe` falls back on "limits".
    A call may block for twice `Limits.seconds`. Thread-safe.

    Raises:
        UsageError: no backend has that name.
    """
    if backend is None:
        return refused(OFF)
    try:
        chosen = choice(backend, unsafe)
    except LookupError as why:
        return refused(str(why))
    return run_in(program, limits or Limits(), chosen)


def choice(backend: str, unsafe: bool) -> str:
    """Return the backend to use; raise LookupError with the reason if it may not be used."""
    named = backend.startswith("docker:") and backend != "docker:"
    if backend not in (ANY, *BACKENDS) and not named:
        raise UsageError(choose("backend", backend, [ANY, *BACKENDS]))
    if backend == ANY:
        if isolated := next((name for name in ISOLATED if not why_not(name)), None):
            return isolated
        backend = "limits"
    if backend == "limits" and not unsafe:
        raise LookupError(f"limits alone leave open {exposed()}: pass unsafe (--unsafe) to run programs anyway")
    if why := why_not(backend):
        raise LookupError(f"{backend} is not available here: {why}")
    return backend


@cache
def why_not(backend: str) -> str:
    """Return why this machine lacks a backend, or an empty text; found by one cached trial, except for slow docker."""
    if (why := missing(backend)) or backend.startswith("docker"):
        return why
    outcome = run_in(TEST_PROGRAM, Limits(seconds=30.0), backend)
    return "" if (outcome.status, outcome.stdout) == ("ok", "inside\n") else outcome.reason or "a trial printed nothing"


def exposed() -> str:
    """Return what limits alone leave unprotected on this machine for the current user."""
    return OPEN if is_root() else OPEN_AS_US


def described() -> list[tuple[str, str]]:
    """Return for each backend its name, and what it does or why this machine lacks it."""
    does = {
        "bwrap": "no network, read-only files, own processes and users (bubblewrap)",
        "namespaces": "no network, read-only files, own processes and users (the kernel's namespaces)",
        "docker": "a container without network, if its image is there (not tried)",
        "limits": f"time, memory, processes and files are limited; not protected: {exposed()}",
    }
    return [(name, f"no: {why}" if (why := why_not(name)) else does[name]) for name in BACKENDS]
