"""The limits of sandboxed programs, and the command lines of the backends: bubblewrap, containers, or only limits."""

from __future__ import annotations

import errno
import json
import math
import os
import platform
import secrets
import shutil
import struct
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cache

from sottovoce.core.any_types import Keywords
from sottovoce.core.errors import UsageError

CONTAINERS = ("podman", "docker")
IMAGE = "python:3.11-slim"
"""Default image of containers; "docker:IMAGE" names another. It must be on the machine: nothing is downloaded."""
MIB = 1 << 20
SMALLEST_MEMORY = 64 * MIB
"""Bytes; Python itself takes half of them."""
STRANGERS = (61_184, 4_000)
"""User numbers (first, count) that belong to nobody: if we are root, each program runs as one of them."""
# Python text that runs first within the backend: it sets the limits and becomes the program, which is on stdin.
START = """
import json, os, resource, sys
for name, most in json.loads(sys.argv[1]).items():
    which = getattr(resource, name)
    hard = resource.getrlimit(which)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(which, (most, most))
try:
    open("/proc/self/oom_score_adj", "w").write("1000")  # if the machine runs out of memory, this is ended first
except OSError:
    pass
os.execv(sys.executable, [sys.executable, "-I", "-S", "-B", "-X", "utf8", "-"])
"""
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/ld.so.cache")
"""Paths of the machine that a Python needs, in addition to its own directory."""


@dataclass(frozen=True)
class Limits:
    """Resource limits of a program; if it exceeds one, it is ended with all processes that it started.

    Raises:
        UsageError: a limit is not above zero, or the memory is too small for Python itself.
    """

    seconds: float = 5.0
    """Wall time; CPU time has the same limit, rounded up to whole seconds."""
    memory: int = 512 * MIB
    """Bytes of address space of each process, and bytes of resident memory of all processes together."""
    processes: int = 16
    """Number of processes and threads at a time; unless we are root, in addition to those of our user."""
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


def new_user() -> int | None:
    """Return the number of a user that is nobody's; None if we are not root, so that programs run as our user."""
    return STRANGERS[0] + secrets.randbelow(STRANGERS[1]) if hasattr(os, "geteuid") and os.geteuid() == 0 else None


def as_user(user: int | None) -> dict[str, Keywords]:
    """Return the arguments of `Popen` that make a process run as a user."""
    return {} if user is None else {"user": user, "group": user, "extra_groups": []}


@cache
def interpreter() -> tuple[str, str]:
    """Return a Python that a program's user can run, ours or the system's, and the directory of its library."""
    test = "import ctypes, json, resource, sys; assert sys.version_info >= (3, 11); print(sys.base_prefix)"
    for path in (getattr(sys, "_base_executable", sys.executable), "/usr/bin/python3", shutil.which("python3")):
        line = [str(path), "-I", "-S", "-c", test]
        with suppress(OSError):
            done = subprocess.run(line, capture_output=True, text=True, cwd="/", env={}, **as_user(new_user()))
            if done.returncode == 0:
                return str(path), done.stdout.strip()
    raise LookupError("no Python 3.11 or newer was found that another user can run")


def command(backend: str, limits: Limits, user: int | None, name: str, calls: int | None = None) -> list[str]:
    """Return the command that runs the program on its stdin; `name` is that of a container.

    `calls` is an open file with the filter of system calls, for bwrap.
    """
    kind, _, image = backend.partition(":")
    start = ["-I", "-S", "-B", "-c", START, json.dumps(bounds(limits, kind, user))]
    if kind in CONTAINERS:
        return [*container(kind, limits, user, name), image or IMAGE, *start]
    python, prefix = interpreter()
    return [*(bubblewrap(prefix, limits, calls) if kind == "bwrap" else []), python, *start]


def bounds(limits: Limits, kind: str, user: int | None) -> dict[str, int]:
    """Return the limits of each process by their names in `resource`."""
    known = {
        "RLIMIT_CPU": math.ceil(limits.seconds) + 1,  # after the clock, which says why: one core takes as long
        "RLIMIT_AS": limits.memory,
        "RLIMIT_FSIZE": limits.file_size,
        "RLIMIT_NOFILE": limits.open_files,
        "RLIMIT_CORE": 0,
        "RLIMIT_MSGQUEUE": 0,
        "RLIMIT_MEMLOCK": 0,
    }
    return known if kind in CONTAINERS else known | {"RLIMIT_NPROC": limits.processes + others(user)}


def others(user: int | None) -> int:
    """Return how many processes and threads count besides the program's: bwrap's two, and all of our user."""
    import psutil  # late: the help of commands loads this module

    count = 2
    for process in psutil.process_iter() if user is None else ():
        with suppress(psutil.Error):
            count += process.num_threads() if process.uids().real == os.getuid() else 0
    return count


def bubblewrap(prefix: str, limits: Limits, calls: int | None) -> list[str]:
    """Return the command line of bwrap, 0.8 or newer, up to the program that it starts."""
    existing = [path for path in SYSTEM if os.path.lexists(path)]
    shown = [path for path in existing if not os.path.islink(path)]
    shown += [] if any(os.path.commonpath([prefix, path]) == path for path in shown) else [prefix]
    return [
        *("bwrap", "--unshare-all", "--unshare-user", "--disable-userns", "--new-session", "--die-with-parent"),
        *("--cap-drop", "ALL", *([] if calls is None else ["--seccomp", str(calls)])),
        *(word for path in shown for word in ("--ro-bind", path, path)),
        *(word for path in existing if path not in shown for word in ("--symlink", os.readlink(path), path)),
        *("--proc", "/proc", "--dev", "/dev", "--size", "4096", "--tmpfs", "/dev/shm", "--remount-ro", "/dev"),
        *("--size", str(limits.scratch), "--tmpfs", "/tmp", "--chdir", "/tmp", "--remount-ro", "/", "--"),
    ]


def container(kind: str, limits: Limits, user: int | None, name: str) -> list[str]:
    """Return the command line of docker or podman, up to the image."""
    number, memory = STRANGERS[0] if user is None else user, str(limits.memory)
    return [
        *(kind, "run", "--rm", "--interactive", "--pull", "never", "--name", name),
        *("--network", "none", "--ipc", "private", "--read-only", "--cap-drop", "ALL"),
        *("--security-opt", "no-new-privileges", "--user", f"{number}:{number}"),
        *("--memory", memory, "--memory-swap", memory, "--pids-limit", str(limits.processes + 1), "--cpus", "1"),
        *("--tmpfs", f"/tmp:rw,nosuid,nodev,mode=1777,size={limits.scratch}", "--workdir", "/tmp"),
        *("--entrypoint", "python3"),
    ]


CALLS = {
    "socket": (41, 198),  # of any family: there is no one to connect to; socket pairs stay allowed
    "io_uring_setup": (425, 425),
    "memfd_create": (319, 279),  # these take memory that no limit counts
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "ptrace": (101, 117),  # these reach into other processes or the kernel
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "personality": (135, 92),
}
"""System calls that bwrap forbids, with their numbers on x86-64 and ARM64; containers forbid their own."""
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""A machine's column in `CALLS`, and its number in audit.h; on other machines no call is forbidden."""


def call_filter() -> bytes:
    """Return the filter of system calls as the kernel reads it (bpf_common.h); empty for other processors."""
    if (machine := platform.machine()) not in MACHINES:
        return b""
    column, audit = MACHINES[machine]
    load, equal, at_least, end = 0x20, 0x15, 0x35, 0x06
    allow, kill, deny = 0x7FFF0000, 0x80000000, 0x00050000 | errno.EPERM
    lines = [(load, 0, 0, 4), (equal, 1, 0, audit), (end, 0, 0, kill)]  # calls of another architecture
    lines += [(load, 0, 0, 0), (at_least, 0, 1, 1 << 30), (end, 0, 0, kill)]  # x32: the same calls, other numbers
    for numbers in CALLS.values():
        lines += [(equal, 0, 1, numbers[column]), (end, 0, 0, deny)]
    return b"".join(struct.pack("=HBBI", *line) for line in [*lines, (end, 0, 0, allow)])
