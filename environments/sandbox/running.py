"""What may run where: only in a backend that was asked for, and without walls only where somebody says so."""

from __future__ import annotations

from functools import cache

from sottovoce.environments.sandbox.backends import BACKENDS, ISOLATED
from sottovoce.environments.sandbox.holding import hold
from sottovoce.environments.sandbox.limits import Limits, Outcome, refused
from sottovoce.environments.sandbox.machine import is_root, missing
from sottovoce.errors import UsageError, choose

ANY = "isolated"
"""The first of `ISOLATED` that this machine offers."""
OFF = f"the sandbox is off; name a backend to run programs: {ANY}, {', '.join(BACKENDS)}"
TRIAL = "print('inside')"
NETWORK = "the network (unless the processor is x86-64 or ARM64)"
OPEN = f"{NETWORK}, the files and folders that all users may read or write"
OPEN_AS_US = f"{NETWORK}, every file of yours, the environment and the processes of yours, this one included"


def run(program: str, limits: Limits | None = None, backend: str | None = None, unsafe: bool = False) -> Outcome:
    """Run a Python program that a stranger wrote, in a process of its own; it sees no packages, and stdin is empty.

    Backends: "isolated" (the best of this machine), "bwrap", "namespaces", "docker" or "docker:IMAGE", and "limits",
    which isolates nothing and so needs `unsafe`. "isolated" with `unsafe` takes limits where there is nothing better.
    May block for twice `Limits.seconds`; any thread may call it, and many at once.

    Raises:
        UsageError: no backend has that name.
    """
    if backend is None:
        return refused(OFF)
    try:
        chosen = choice(backend, unsafe)
    except LookupError as why:
        return refused(str(why))
    return hold(program, limits or Limits(), chosen)


def choice(backend: str, unsafe: bool) -> str:
    """The backend that is meant, where it may be used; LookupError says why not."""
    named = backend.startswith("docker:") and backend != "docker:"
    if backend not in (ANY, *BACKENDS) and not named:
        raise UsageError(choose("backend", backend, [ANY, *BACKENDS]))
    if backend == ANY:
        if found := next((each for each in ISOLATED if not why_not(each)), None):
            return found
        backend = "limits"
    if backend == "limits" and not unsafe:
        raise LookupError(f"limits alone leave open {exposed()}: say unsafe (--unsafe) to run programs so")
    if why := why_not(backend):
        raise LookupError(f"{backend} is not to be had here: {why}")
    return backend


@cache
def why_not(backend: str) -> str:
    """Why this machine has no such backend, or nothing; found out once, by a trial (not of docker: that takes long)."""
    if (why := missing(backend)) or backend.startswith("docker"):
        return why
    tried = hold(TRIAL, Limits(seconds=30.0), backend)
    return "" if (tried.status, tried.stdout) == ("ok", "inside\n") else tried.reason or "a trial printed nothing"


def exposed() -> str:
    """What limits alone do not contain on this machine, as we run now."""
    return OPEN if is_root() else OPEN_AS_US


def described() -> list[tuple[str, str]]:
    """What this machine offers, a line for each backend: its name, and what it does or why it is not there."""
    does = {
        "bwrap": "no network, read-only files, own processes and users (bubblewrap)",
        "namespaces": "no network, read-only files, own processes and users (the kernel's namespaces)",
        "docker": "a container without network, if its image is there (not tried)",
        "limits": f"time, memory, processes and files are limited; open are {exposed()}",
    }
    return [(name, f"no: {why}" if (why := why_not(name)) else does[name]) for name in BACKENDS]
