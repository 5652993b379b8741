"""What this machine offers to keep programs in, found out once, by trying."""

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
PATIENCE = 60.0  # seconds of the clock; 0.03 are usual
NOBODY = ((2_000_000_000, 100_000_000), (61_184, 4_000))
"""Numbers that no machine gives to users: far up, or (where few are mapped) where services get theirs for a while."""


def mapped_users() -> int:
    """How many user numbers there are: fewer in a container that maps its own."""
    lines = Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()
    return max(int(start) + int(count) for start, _, count in map(str.split, lines))


@cache
def is_root() -> bool:
    """Whether we must change the user first: limits on processes do not bind root, and files obey it."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def new_user() -> int | None:
    """The number of a user who is nobody else, where we may become one; None where we are not root."""
    if not is_root():
        return None
    users = mapped_users()
    for first, many in NOBODY:
        if users >= first + many:
            return first + secrets.randbelow(many)
    return None


def as_user(user: int | None) -> dict[str, object]:
    """What `Popen` is told so that a process belongs to a user."""
    return {} if user is None else {"user": user, "group": user, "extra_groups": []}


@cache
def interpreter() -> Interpreter | None:
    """The first Python that another user can run: ours without its packages, or the system's."""
    own = getattr(sys, "_base_executable", sys.executable)
    for path in (own, "/usr/local/bin/python3", "/usr/bin/python3", shutil.which("python3")):
        if path and (prefix := told_by(path)):
            return Interpreter(path, prefix)
    return None


def told_by(path: str) -> str | None:
    """The folder of a Python that runs as the other user and is new enough, or None."""
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
    """Why a backend cannot even be tried, in a few words; empty where it can."""
    if backend.partition(":")[0] == "docker":
        if os.name != "posix":
            return "we start docker on Linux and macOS only"
        return "" if shutil.which("docker") else "docker is not installed"
    if sys.platform != "linux":
        return f"it needs Linux, and this is {sys.platform}"
    if is_root() and new_user() is None:
        return "we are root, and there is no other user to become"
    if interpreter() is None:
        return "there is no Python 3.11 or newer that another user can run"
    return "bwrap is not installed" if backend == "bwrap" and not shutil.which("bwrap") else ""
