"""The isolation backends, each as a command line: bubblewrap, namespaces, docker, or only limits."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sottovoce.core.errors import choose
from sottovoce.environments.sandbox.limits import Limits

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
def keeper() -> str:
    """Return the supervisor's source as one text, since another user may be unable to read its files."""
    isolation, rest = (
        Path(__file__).with_name(name).read_text(encoding="utf-8") for name in ("isolation.py", "supervisor.py")
    )
    return f"{isolation}\n{JOINT.sub('', rest)}"


def layout(python: Interpreter) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the paths to show read-only, and the symbolic links to create, as (path, target)."""
    there = [path for path in SYSTEM if os.path.lexists(path)]
    links = [(path, os.readlink(path)) for path in there if os.path.islink(path)]
    shown = [path for path in there if not os.path.islink(path)]
    if not any(Path(python.prefix).is_relative_to(path) for path in shown):
        shown.append(python.prefix)
    return shown, links


def command(backend: str, python: Interpreter, limits: Limits, user: int | None, name: str) -> list[str]:
    """Return the command that starts the supervisor under a backend; `name` is that of a docker container."""
    ours = [python.path, *FLAGS, keeper()]
    kind, _, image = backend.partition(":")
    if kind == "bwrap":
        return [*bubblewrap(python, limits), *ours]
    if kind == "docker":
        return [*docker(limits, user, name, image or IMAGE), *FLAGS, keeper()]
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
