"""A sandbox for Python programs that a model wrote: bubblewrap, podman or docker isolate them, and limits end them.

A program runs only in a backend that was named, and without isolation only if that is confirmed. It is watched from
outside, so it cannot forge its outcome. docs/howto/sandbox.md says what each backend contains.
"""

from __future__ import annotations

import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import IO, Any, Literal

from sottovoce.core.any_types import Untyped
from sottovoce.core.errors import UsageError, nearest
from sottovoce.environments.isolation import CONTAINERS, Limits, as_user, call_filter, command, new_user

__all__ = ["Limits", "Outcome", "Status", "described", "run"]

ANY = "isolated"
"""The first of `ISOLATED` that this machine offers."""
ISOLATED = ("bwrap", "podman", "docker")
BACKENDS = (*ISOLATED, "limits")
OFF = f"the sandbox is off; name a backend to run programs: {ANY}, {', '.join(BACKENDS)}"
EXPOSED = "the network, and every file and process that the program's user may use"
POLL = 0.03  # seconds between two checks of time and memory
Status = Literal["ok", "error", "timeout", "memory", "output", "refused"]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a program; only `memory` depends in part on it: on a MemoryError that it did not catch."""

    status: Status
    stdout: str = ""
    stderr: str = ""
    """Includes the traceback if the status is `error`."""
    seconds: float = 0.0
    """Wall time."""
    reason: str = ""
    """One line: why it was refused, which limit or signal ended it, or its error."""


def run(program: str, limits: Limits | None = None, backend: str | None = None, unsafe: bool = False) -> Outcome:
    """Run an untrusted Python program in a separate process, without packages and with an empty stdin. Thread-safe.

    Backends: "isolated" (the first of the next three that works here), "bwrap", "podman" and "docker" (also
    "docker:IMAGE"), and "limits", which isolates nothing and therefore needs `unsafe`. "isolated" with `unsafe` falls
    back on "limits".

    Raises:
        UsageError: no backend has that name.
    """
    if backend is None:
        return Outcome("refused", reason=OFF)
    try:
        return _run(program, limits or Limits(), choice(backend, unsafe))
    except (LookupError, OSError) as why:
        return Outcome("refused", reason=str(why))


def choice(backend: str, unsafe: bool) -> str:
    """Return the backend to use; raise LookupError with the reason if it may not be used."""
    kind, colon, image = backend.partition(":")
    if kind not in (ANY, *BACKENDS) or (colon and not (image and kind in CONTAINERS)):
        raise UsageError(nearest("backend", backend, [ANY, *BACKENDS]))
    if backend == ANY:
        if isolated := next((name for name in ISOLATED if not why_not(name)), None):
            return isolated
        if not unsafe:
            raise LookupError(
                f"nothing here isolates programs (bwrap: {why_not('bwrap')}): install bubblewrap (apt-get install "
                f"bubblewrap), or use `sandbox='limits'` `unsafe=True`, which leaves open {EXPOSED}"
            )
        backend = "limits"
    if backend == "limits" and not unsafe:
        raise LookupError(f"limits alone leave open {EXPOSED}: pass `unsafe=True` to run programs anyway")
    if why := why_not(backend):
        raise LookupError(f"{backend} is not available here: {why}")
    return backend


@cache
def why_not(backend: str) -> str:
    """Return why this machine lacks a backend, or an empty text; found by one cached trial."""
    kind = backend.partition(":")[0]
    if sys.platform != "linux" and kind not in CONTAINERS:
        return f"it needs Linux, and this is {sys.platform}"
    if kind != "limits" and not shutil.which(kind):
        return f"{kind} is not installed"
    try:
        outcome = _run("print('inside')", Limits(seconds=30.0), backend)
    except (LookupError, OSError) as error:
        return str(error)
    if (outcome.status, outcome.stdout) == ("ok", "inside\n"):
        return ""
    lines = outcome.stderr.strip().splitlines() or [outcome.reason]
    return lines[0 if kind in CONTAINERS else -1] or "a trial printed nothing"


def described() -> list[tuple[str, str]]:
    """Return for each backend its name, and a description or the reason why this machine lacks it."""
    does = {
        "bwrap": "no network, read-only files, own processes and users (bubblewrap)",
        "podman": "a container without network",
        "docker": "a container without network",
        "limits": f"time, memory, processes and files are limited; not protected: {EXPOSED}",
    }
    return [(name, f"no: {why}" if (why := why_not(name)) else does[name]) for name in BACKENDS]


def _run(program: str, limits: Limits, backend: str) -> Outcome:
    kind, user, name = backend.partition(":")[0], new_user(), f"sottovoce-{secrets.token_hex(8)}"
    with _scratch(kind, user) as folder, _file(program) as source, _file(call_filter()) as calls:
        given = [calls.fileno()] if kind == "bwrap" and call_filter() else []
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": folder, "LANG": "C.UTF-8"}
        process: subprocess.Popen[bytes] = subprocess.Popen(
            command(backend, limits, user, name, *given),
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/" if kind != "limits" else folder,
            env=None if kind in CONTAINERS else environment,  # the client of a container needs ours
            pass_fds=given,
            start_new_session=True,
            **({} if kind in CONTAINERS else as_user(user)),
        )
        return _outcome(process, limits, kind, user, name)


def _file(content: str | bytes) -> IO[bytes]:
    """Return an open file with this content. Nothing can be written to it."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
        file.flush()
        return open(file.name, "rb")


@contextmanager
def _scratch(kind: str, user: int | None) -> Iterator[str]:
    """Yield the program's scratch directory; with `limits` it is on this machine's disk and removed afterwards."""
    if kind != "limits":
        yield "/tmp"
        return
    path = tempfile.mkdtemp(prefix="sottovoce-")
    try:
        if user is not None:
            os.chown(path, user, user)
        yield path
    finally:  # rm follows no links; chmod unlocks directories that it could not remove
        script = 'rm -rf -- "$1" || { chmod -R u+rwx -- "$1"; rm -rf -- "$1"; }'
        subprocess.run(["sh", "-c", script, "sh", path], check=False, stderr=subprocess.DEVNULL)


def _outcome(process: subprocess.Popen[bytes], limits: Limits, kind: str, user: int | None, name: str) -> Outcome:
    """Watch a program until it ends or exceeds a limit, leave no process behind, and return the outcome."""
    assert process.stdout and process.stderr, "both are pipes"
    started = time.monotonic()
    with process.stdout as out, process.stderr as err:
        texts = {out.fileno(): bytearray(), err.fileno(): bytearray()}
        pipes, why = [*texts], ""
        try:
            while not why and process.poll() is None:
                why = _read(pipes, texts, limits.output, POLL)
                if not why and time.monotonic() - started > limits.seconds:
                    why = "timeout"
                elif not why and sum(_family(process).values()) > limits.memory:
                    why = "memory"
        finally:
            _end(process, kind, user, name, exceeded=bool(why))
        while not why and select.select(pipes, [], [], 0)[0]:
            why = _read(pipes, texts, limits.output, 0)
        said, complained = (
            bytes(texts[pipe.fileno()][: limits.output]).decode("utf-8", "replace") for pipe in (out, err)
        )
    status, reason = _verdict(process.returncode, why, complained, limits, kind)
    return Outcome(status, said, complained, time.monotonic() - started, reason)


def _read(pipes: list[int], texts: dict[int, bytearray], most: int, seconds: float) -> str:
    """Read the data in the pipes within a time; return "output" if there is too much."""
    for pipe in select.select(pipes, [], [], seconds)[0]:
        if not (data := os.read(pipe, 65536)):
            pipes.remove(pipe)
        texts[pipe] += data
    return "output" if sum(map(len, texts.values())) > most else ""


def _family(process: subprocess.Popen[bytes]) -> dict[Untyped, int]:
    """Return a process and its descendants, with their resident memory in bytes."""
    import psutil

    found = dict[Any, int]()
    with suppress(psutil.Error):
        first = psutil.Process(process.pid)
        for each in (first, *first.children(recursive=True)):
            with suppress(psutil.Error):
                found[each] = each.memory_info().rss
    return found


def _end(process: subprocess.Popen[bytes], kind: str, user: int | None, name: str, exceeded: bool) -> None:
    """End a program with its processes; bwrap's and containers' end with the first."""
    if kind == "limits":
        import psutil

        for each in [*_family(process), *(psutil.process_iter() if user is not None else ())]:
            with suppress(psutil.Error):
                if user in (None, each.uids().real):
                    each.kill()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if kind in CONTAINERS and exceeded:
        subprocess.run([kind, "rm", "--force", name], check=False, capture_output=True)


def _verdict(code: int, why: str, errors: str, limits: Limits, kind: str) -> tuple[Status, str]:
    number = -code if code < 0 else code - 128 if code > 128 else 0  # bwrap and containers add 128 to a signal
    last = (errors.strip().splitlines() or [""])[-1]
    if why == "timeout" or number == signal.SIGXCPU:
        return "timeout", f"ran longer than {limits.seconds:g} s"
    if why == "output":
        return "output", f"wrote more than {limits.output} bytes"
    killed = kind in CONTAINERS and number == signal.SIGKILL
    if why == "memory" or killed or (code and last.startswith("MemoryError")):
        return "memory", f"took more than {limits.memory} bytes of memory"
    if number:
        named = number in {*signal.Signals}  # most real-time signals have no name
        return "error", f"ended by {signal.Signals(number).name if named else f'signal {number}'}"
    return ("error", last or f"exit code {code}") if code else ("ok", "")
