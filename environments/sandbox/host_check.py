"""Host checks for the sandbox: users, Pythons and tools of this machine."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from sottovoce.environments.sandbox.backends import Interpreter

TELLS = "import ctypes, json, resource, sys; print(json.dumps([sys.base_prefix, sys.version_info[:2]]))"
OLDEST = [3, 11]
PATIENCE = 60.0  # seconds of wall time; usually 0.03
NOBODY = ((2_000_000_000, 100_000_000), (61_184, 4_000))
"""Ranges of user numbers (first, count) that no machine assigns to users: very high ones, or, if few are mapped, those
of dynamic services."""


def mapped_users() -> int:
    """Return the number of user numbers; a container that maps its own has fewer."""
    lines = Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()
    return max(int(start) + int(count) for start, _, count in map(str.split, lines))


@cache
def is_root() -> bool:
    """Return whether we are root and must change the user: process limits and file permissions do not bind root."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def new_user() -> int | None:
    """Return an unused user number that we may switch to; None if we are not root or no such number is mapped."""
    if not is_root():
        return None
    users = mapped_users()
    for first, many in NOBODY:
        if users >= first + many:
            return first + secrets.randbelow(many)
    return None


def as_user(user: int | None) -> dict[str, object]:
    """Return the arguments of `Popen` that make a process run as a user."""
    return {} if user is None else {"user": user, "group": user, "extra_groups": []}


@cache
def interpreter() -> Interpreter | None:
    """Return the first Python that another user can run: ours without its packages, or the system's."""
    own = getattr(sys, "_base_executable", sys.executable)
    for path in (own, "/usr/local/bin/python3", "/usr/bin/python3", shutil.which("python3")):
        if path and (prefix := told_by(path)):
            return Interpreter(path, prefix)
    return None


def told_by(path: str) -> str | None:
    """Return the prefix of a Python that runs as the other user and is new enough, or None."""
    try:
        asked = subprocess.run(
            [path, "-I", "-S", "-c", TELLS],
            capture_output=True,
            check=True,
            cwd="/",
            env={},
            timeout=PATIENCE,
            **as_user(new_user()),  # type: ignore[call-overload]
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    prefix, version = json.loads(asked.stdout)
    return str(prefix) if version >= OLDEST else None


def missing(backend: str) -> str:
    """Return in a few words why a backend cannot be tried; empty if it can."""
    if backend.partition(":")[0] == "docker":
        if os.name != "posix":
            return "we start docker on Linux and macOS only"
        return "" if shutil.which("docker") else "docker is not installed"
    if sys.platform != "linux":
        return f"it needs Linux, and this is {sys.platform}"
    if is_root() and new_user() is None:
        return "we are root, and there is no unused user number to switch to"
    if interpreter() is None:
        return "no Python 3.11 or newer was found that another user can run"
    return "bwrap is not installed" if backend == "bwrap" and not shutil.which("bwrap") else ""
