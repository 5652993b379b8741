"""The supervisor: a separate process between a program that a model wrote and the machine.

It runs as text (`python -I -S -c`, after `isolation.py`), since it may run where our files cannot be read, and imports
nothing else of ours. It reads a job as JSON from stdin. It writes the line "ready" and finally a JSON report to stdout.
The program does not inherit that pipe and cannot open it, since the supervisor is not dumpable. Linux only.
"""

import contextlib
import json
import math
import os
import resource
import select
import signal
import subprocess
import sys
import time

from sottovoce.environments.sandbox.isolation import Job, Refusal, enter, forbid, furnish, renounce

POLL = 0.02  # seconds between two checks of time and memory
OWN_USERS = 61184  # user numbers from here on belong to nobody, so that all their processes may be killed


def bounds(job: Job) -> list[tuple[int, int]]:
    """Return the limits of each process, as (resource, amount); that on processes includes existing ones."""
    return [
        (resource.RLIMIT_CPU, math.ceil(job["seconds"])),
        (resource.RLIMIT_AS, job["memory"]),
        (resource.RLIMIT_FSIZE, job["file_size"]),
        (resource.RLIMIT_NOFILE, job["open_files"]),
        (resource.RLIMIT_NPROC, job["processes"] + job["others"]),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_SIGPENDING, 64),
    ]


def bind(job: Job) -> None:
    """Set the limits in the program's process, before it starts."""
    for which, most in bounds(job):
        _, hard = resource.getrlimit(which)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(which, (most, most))


def family() -> dict[int, int]:
    """Return our descendants: process ids with their resident memory in bytes."""
    processes = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
            processes[int(name)] = (int(fields[1]), int(fields[21]) * resource.getpagesize())
    ours, grown = {os.getpid()}, True
    while grown:
        more = {number for number, (parent, _) in processes.items() if parent in ours} - ours
        ours, grown = ours | more, bool(more)
    return {number: processes[number][1] for number in ours - {os.getpid()}}


def end(job: Job) -> None:
    """Kill all processes that the program left, however they were started."""
    if os.getpid() == 1 or OWN_USERS <= os.getuid() == job["user"]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)  # all processes of this namespace, or of this user of our own, except this one
        return
    for sign in (signal.SIGSTOP, signal.SIGKILL):  # stopped processes can no longer fork
        for _ in range(50):
            for number in (running := family()):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(number, sign)
            if family().keys() <= running.keys():
                break


def reap() -> None:
    """Reap killed processes that have become our children."""
    until = time.monotonic() + 0.5
    with contextlib.suppress(ChildProcessError):  # no child is left
        while time.monotonic() < until:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(POLL / 10)


def start(job: Job) -> subprocess.Popen[bytes]:
    """Start the program in a new session."""
    with open("program.py", "w", encoding="utf-8", errors="surrogatepass") as file:
        file.write(job["program"])
    return subprocess.Popen(
        [job["python"], "-I", "-S", "-B", "-X", "utf8", "program.py"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": os.getcwd(), "LANG": "C.UTF-8"},
        start_new_session=True,
        preexec_fn=lambda: bind(job),
    )


def read(pipes: list[int], texts: dict[int, bytearray], most: int, seconds: float) -> bool:
    """Read from the pipes into `kept`; if that exceeds `most` bytes, truncate it and return True."""
    for pipe in select.select(pipes, [], [], seconds)[0]:
        if not (data := os.read(pipe, 65536)):
            pipes.remove(pipe)
        texts[pipe] += data
    if sum(map(len, texts.values())) <= most:
        return False
    for pipe in texts:
        del texts[pipe][most:]
    return True


def exceeded(job: Job, started: float) -> str:
    """Return the limit that the program exceeds, or an empty text."""
    if time.monotonic() - started > job["seconds"]:
        return "timeout"
    return "memory" if sum(family().values()) > job["memory"] else ""


def watched(job: Job) -> Job:
    """Run the program until it ends or exceeds a limit, and return the report."""
    started = time.monotonic()
    process = start(job)
    assert process.stdout and process.stderr, "both are pipes"
    out, err = process.stdout.fileno(), process.stderr.fileno()
    pipes, output, why = [out, err], {out: bytearray(), err: bytearray()}, ""
    while not why and process.poll() is None:
        too_much = read(pipes, output, job["output"], POLL)
        why = "output" if too_much else exceeded(job, started)
        if not pipes:
            time.sleep(POLL)
    end(job)
    code = process.wait()
    reap()
    while not why and select.select(pipes, [], [], 0)[0]:
        why = "output" if read(pipes, output, job["output"], 0) else ""
    texts = [bytes(output[pipe]).decode("utf-8", "replace") for pipe in (out, err)]
    return {"code": code, "why": why, "stdout": texts[0], "stderr": texts[1], "seconds": time.monotonic() - started}


def ended(job: Job) -> None:
    """Kill all processes of the program and exit, on a request to stop."""
    end(job)
    os._exit(1)


def main() -> None:
    """Run one job."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # as process 1 it then ignores signals of the program
    job = json.load(sys.stdin)
    if os.getpid() != 1 and not job["namespaces"]:
        signal.signal(signal.SIGTERM, lambda *_: ended(job))
    try:
        if job["namespaces"]:
            enter()
            furnish(job)
        else:
            os.chdir(job["folder"])
        renounce()
        forbid()
    except (Refusal, OSError) as error:
        print(json.dumps({"refused": str(error)}), flush=True)
        return
    print("ready", flush=True)
    print(json.dumps(watched(job)), flush=True)


if __name__ == "__main__":
    main()
