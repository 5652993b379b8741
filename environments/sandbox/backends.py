"""The isolation backends: what this machine offers, and each backend as a command line.

Backends are bubblewrap, namespaces, docker, or only limits. They depend on users, Pythons and tools of the machine.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sottovoce.core.errors import choose
from sottovoce.environments.sandbox.limits import Limits

PREFIX_AND_VERSION = "import ctypes, json, resource, sys; print(json.dumps([sys.base_prefix, sys.version_info[:2]]))"
OLDEST = [3, 11]
PATIENCE = 60.0  # seconds of wall time; usually 0.03
NOBODY = ((2_000_000_000, 100_000_000), (61_184, 4_000))
"""Ranges of user numbers (first, count) that no machine assigns to users: very high ones, or, if few are mapped, those
of dynamic services."""


@cache
def is_root() -> bool:
    """Return whether we are root and must change the user: process limits and file permissions do not bind root."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def new_user() -> int | None:
    """Return an unused user number that we may switch to; None if we are not root or no such number is mapped."""
    if not is_root():
        return None
    lines = Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()
    users = max(int(start) + int(count) for start, _, count in map(str.split, lines))  # mapped in this container
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
        if path and (prefix := prefix_of(path)):
            return Interpreter(path, prefix)
    return None


def prefix_of(path: str) -> str | None:
    """Return the prefix of a Python that runs as the other user and is new enough, or None."""
    try:
        result = subprocess.run(
            [path, "-I", "-S", "-c", PREFIX_AND_VERSION],
            capture_output=True,
            check=True,
            cwd="/",
            env={},
            timeout=PATIENCE,
            **as_user(new_user()),  # type: ignore[call-overload]
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    prefix, version = json.loads(result.stdout)
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


ISOLATED = ("bwrap", "namespaces")
"""Backends that use isolation by the kernel, preferred one first."""
BACKENDS = (*ISOLATED, "docker", "limits")
IMAGE = "python:3.11-slim"
"""Default docker image; "docker:IMAGE" names another. The image must exist, since nothing is downloaded."""
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/ld.so.cache")
"""Paths of the machine that a Python needs, in addition to its own directory."""
JOINT = re.compile(r"^from sottovoce\..*\n", re.MULTILINE)
"""The import that joins the supervisor's two files when they are modules."""
FLAGS = ("-I", "-S", "-B", "-c")


@dataclass(frozen=True)
class Interpreter:
    """The Python that runs programs: one of the machine, without our packages."""

    path: str
    prefix: str
    """Directory of its library."""


@cache
def supervisor_source() -> str:
    """Return the supervisor's source as one text, since another user may be unable to read its files."""
    isolation, rest = (
        Path(__file__).with_name(name).read_text(encoding="utf-8") for name in ("isolation.py", "supervisor.py")
    )
    return f"{isolation}\n{JOINT.sub('', rest)}"


def layout(python: Interpreter) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the paths to show read-only, and the symbolic links to create, as (path, target)."""
    existing = [path for path in SYSTEM if os.path.lexists(path)]
    links = [(path, os.readlink(path)) for path in existing if os.path.islink(path)]
    shown = [path for path in existing if not os.path.islink(path)]
    if not any(Path(python.prefix).is_relative_to(path) for path in shown):
        shown.append(python.prefix)
    return shown, links


def command(backend: str, python: Interpreter, limits: Limits, user: int | None, name: str) -> list[str]:
    """Return the command that starts the supervisor under a backend; `name` is that of a docker container."""
    ours = [python.path, *FLAGS, supervisor_source()]
    kind, _, image = backend.partition(":")
    if kind == "bwrap":
        return [*bubblewrap(python, limits), *ours]
    if kind == "docker":
        return [*docker(limits, user, name, image or IMAGE), *FLAGS, supervisor_source()]
    assert kind in ("namespaces", "limits"), choose("backend", backend, BACKENDS)
    return ours


def bubblewrap(python: Interpreter, limits: Limits) -> list[str]:
    """Return the command line of bwrap, 0.8 or newer, up to the program that it starts."""
    shown, links = layout(python)
    size = str(limits.scratch)
    return [
        *("bwrap", "--unshare-all", "--unshare-user", "--disable-userns", "--as-pid-1", "--new-session"),
        *("--die-with-parent", "--cap-drop", "ALL", "--clearenv"),
        *(word for path in shown for word in ("--ro-bind", path, path)),
        *(word for path, target in links for word in ("--symlink", target, path)),
        *("--proc", "/proc", "--dev", "/dev", "--size", "4096", "--tmpfs", "/dev/shm", "--remount-ro", "/dev"),
        *("--size", size, "--tmpfs", "/tmp", "--chdir", "/tmp", "--remount-ro", "/", "--"),
    ]


def docker(limits: Limits, user: int | None, name: str, image: str) -> list[str]:
    """Return the command line of docker, up to the interpreter's arguments."""
    nobody = user if user is not None else 1_000_000_000 + secrets.randbelow(1_000_000)
    memory = str(limits.memory)
    return [
        *("docker", "run", "--rm", "--interactive", "--pull", "never", "--name", name),
        *("--network", "none", "--ipc", "private", "--read-only", "--cap-drop", "ALL"),
        *("--security-opt", "no-new-privileges", "--user", f"{nobody}:{nobody}"),
        *("--memory", memory, "--memory-swap", memory, "--pids-limit", str(limits.processes + 2), "--cpus", "1"),
        *("--tmpfs", f"/tmp:rw,nosuid,nodev,mode=1777,size={limits.scratch}", "--workdir", "/tmp"),
        *("--entrypoint", "python3", image),
    ]


def settings(limits: Limits, backend: str, python: Interpreter) -> Iterator[tuple[str, object]]:
    """Yield the supervisor's settings besides the program, by name."""
    shown, links = layout(python) if backend == "namespaces" else ([], [])
    yield from {name: getattr(limits, name) for name in Limits.__dataclass_fields__}.items()
    yield "python", "python3" if backend.startswith("docker") else python.path
    yield "namespaces", backend == "namespaces"
    yield "shown", shown
    yield "links", links
