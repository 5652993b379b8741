"""A sandboxed process and its supervisor: their start, the pipe between us, and the cleanup afterwards."""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any

from sottovoce.environments.sandbox.backends import (
    NOBODY,
    Interpreter,
    as_user,
    command,
    interpreter,
    new_user,
    settings,
)
from sottovoce.environments.sandbox.limits import Limits, Outcome, refused

START = 60.0  # seconds of wall time until a supervisor is ready; usually 0.1, more on a busy machine
OVER = 1.9  # factor of the time limit after which we no longer wait for the supervisor to end the program
GENTLE = 2.0  # seconds of wall time for a supervisor to clean up when it is told to stop
COUNTS_WITHIN = (5, 14)
"""Linux version from which a user's processes are counted only within its user namespace."""
Report = dict[str, Any]  # Any: JSON


@dataclass(frozen=True)
class SupervisorReport:
    """The report of a supervisor, and its time."""

    report: Report | None
    seconds: float | None
    """Seconds since the supervisor was ready; None if it never was."""


def run_in(program: str, limits: Limits, backend: str) -> Outcome:
    """Run a program in a backend, whatever that isolates; block for up to twice `Limits.seconds`. Thread-safe."""
    user, python = new_user(), interpreter() or Interpreter("python3", "/usr")
    name = f"sottovoce-{secrets.token_hex(8)}"
    as_whom = None if backend.startswith("docker") else user
    try:
        with folder(backend, as_whom) as scratch, tempfile.TemporaryFile() as job, tempfile.TemporaryFile() as errors:
            job_settings = {
                **dict(settings(limits, backend, python)),
                "program": program,
                "folder": scratch,
                "user": as_whom,
            }
            job.write(json.dumps({**job_settings, "others": other_processes(backend, as_whom)}).encode())
            job.seek(0)
            line = command(backend, python, limits, user, name)
            answer = listen(started(line, job, errors, as_whom), limits, backend, as_whom, name)
            errors.seek(0)
            return outcome(answer, limits, errors.read(2000).decode("utf-8", "replace"))
    except OSError as error:
        return refused(f"{backend} cannot be started: {error}")


def started(line: list[str], job: IO[bytes], errors: IO[bytes], user: int | None) -> subprocess.Popen[bytes]:
    """Start the supervisor in a new session, with the job on stdin."""
    process: subprocess.Popen[bytes] = subprocess.Popen(
        line,
        stdin=job,
        stdout=subprocess.PIPE,
        stderr=errors,
        cwd="/",
        env=environment(line),
        start_new_session=True,
        **as_user(user),  # type: ignore[call-overload]
    )
    return process


def environment(line: list[str]) -> dict[str, str]:
    """Return the few variables that our process needs, since the program may be able to read them."""
    names = ("PATH", "HOME", "DOCKER_HOST", "DOCKER_CONFIG") if line[0] == "docker" else ("PATH",)
    return {"PATH": os.defpath} | {name: value for name in names if (value := os.environ.get(name))}


def listen(
    process: subprocess.Popen[bytes], limits: Limits, backend: str, user: int | None, name: str
) -> SupervisorReport:
    """Wait for the report or the timeout, and leave no process behind."""
    assert process.stdout, "it is a pipe"
    report = None
    try:
        with process.stdout:
            lines, seconds = read_output(process.stdout.fileno(), limits)
        with suppress(ValueError, IndexError):
            report = json.loads(lines.splitlines()[-1])
        return SupervisorReport(report, seconds)
    finally:
        clear(process, backend, user, name, reported=report is not None)


def read_output(pipe: int, limits: Limits) -> tuple[bytes, float | None]:
    """Return a supervisor's output, up to the longest possible report, and the seconds since it was ready."""
    most, output, ready = 8 * limits.output + 4096, b"", None  # JSON writes a byte as at most six
    until = time.monotonic() + START
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    while len(output) < most and poll.poll(1000 * max(0.0, until - time.monotonic())):
        if not (data := os.read(pipe, 65536)):
            break
        output += data
        if ready is None and output.startswith(b"ready\n"):
            ready = time.monotonic()
            until = ready + OVER * limits.seconds
    return output, None if ready is None else time.monotonic() - ready


def clear(process: subprocess.Popen[bytes], backend: str, user: int | None, name: str, reported: bool) -> None:
    """End the supervisor and the program; in namespaces all processes end with it."""
    if backend == "limits" and not reported:
        process.terminate()  # it cleans up; if it is killed first, processes may remain unless they have their own user
        with suppress(subprocess.TimeoutExpired):
            process.wait(GENTLE)
        if user is not None:
            sweep(user)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if backend.startswith("docker") and not reported:
        clean_up(["docker", "rm", "--force", name])


def sweep(user: int) -> None:
    """Kill all processes of a user number that was chosen for one program."""
    assert user >= NOBODY[-1][0], "a user of the machine"
    line = [sys.executable if (python := interpreter()) is None else python.path, "-I", "-S", "-c"]
    clean_up([*line, "import os; os.kill(-1, 9)"], user)


def clean_up(line: list[str], user: int | None = None, seconds: float = GENTLE) -> None:
    """Run a cleanup command and wait for it at most this many seconds; it then continues in the background."""
    quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    apart = {"cwd": "/", "env": environment(line), "start_new_session": True}
    process = subprocess.Popen(line, **quiet, **apart, **as_user(user))  # type: ignore[call-overload]
    waiting = threading.Thread(target=process.wait, daemon=True)  # otherwise it remains a zombie
    waiting.start()
    waiting.join(seconds)


def outcome(answer: SupervisorReport, limits: Limits, errors: str) -> Outcome:
    """Return the outcome for a report, or for a missing one."""
    report, seconds = answer.report, answer.seconds or 0.0
    if answer.seconds is None:
        reason = (
            report.get("refused") if report else (errors.strip().splitlines() or ["its supervisor did not start"])[-1]
        )
        return refused(str(reason))
    if report is None:
        if seconds >= limits.seconds:
            return Outcome("timeout", seconds=seconds, reason=f"ran longer than {limits.seconds:g} s")
        return Outcome("error", seconds=seconds, reason="its supervisor ended before it")
    return outcome_of(report, limits, seconds)


def outcome_of(report: Report, limits: Limits, seconds: float) -> Outcome:
    """Return the outcome for a report."""
    texts = {"stdout": report["stdout"], "stderr": report["stderr"], "seconds": seconds}
    code, why = report["code"], report["why"]
    if why == "timeout" or code == -signal.SIGXCPU:
        return Outcome("timeout", **texts, reason=f"ran longer than {limits.seconds:g} s")
    if why == "output":
        return Outcome("output", **texts, reason=f"wrote more than {limits.output} bytes")
    last = (report["stderr"].strip().splitlines() or [""])[-1]
    if why == "memory" or (code and last.startswith("MemoryError")):
        return Outcome("memory", **texts, reason=f"took more than {limits.memory} bytes of memory")
    if code < 0:
        named = -code in {*signal.Signals}  # most real-time signals have no name
        name = signal.Signals(-code).name if named else f"signal {-code}"
        return Outcome("error", **texts, reason=f"ended by {name}")
    return Outcome("error", **texts, reason=last or f"exit code {code}") if code else Outcome("ok", **texts)


def other_processes(backend: str, user: int | None) -> int:
    """Return how many processes and threads count besides the program's: all of ours, if it runs as our user."""
    version = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    if user is not None or (backend != "limits" and version >= COUNTS_WITHIN):
        return 2  # the supervisor, and the process that it waits in
    import psutil  # late: the help of commands loads this module, and needs no processes

    count = 2
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            count += process.num_threads() if process.uids().real == os.getuid() else 0
    return count


@contextmanager
def folder(backend: str, user: int | None) -> Iterator[str]:
    """Yield the program's scratch directory; with `limits` it is on this machine's disk and removed afterwards."""
    if backend != "limits":
        yield "/tmp"
        return
    path = tempfile.mkdtemp(prefix="sottovoce-")
    try:
        if user is not None:
            os.chown(path, user, user)
        yield path
    finally:  # rm follows no links and handles any depth; chmod unlocks directories that it could not remove
        script = 'rm -rf -- "$1" || { chmod -R u+rwx -- "$1"; rm -rf -- "$1"; }'
        clean_up(["sh", "-c", script, "sh", path])
