"""Formulae in LaTeX worked out in a process of their own, which is started when the first one comes.

Readers meet formulae rarely: plain numbers never come here. The process takes half a second to start and some
10 ms a formula; it is ended when it hangs, and with ours.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

LONGEST = 200  # characters; no result is longer
PATIENCE = 20.0  # seconds of the clock, in which the process itself gives up long before
START = 120.0  # seconds of the clock


class Worker:
    """The process, one formula at a time; any thread may ask."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def ask(self, latex: str) -> float | None:
        """The value of a formula; None where it has none, or none within the limits of time and memory."""
        # A thread of its own, since servers refuse to start a process in the one of their event loop.
        with self._lock, ThreadPoolExecutor(1) as thread:
            found = thread.submit(self._ask, latex).result()
        return None if found is None else float(found)

    def end(self) -> None:
        """End the process, if there is one; the next formula starts another."""
        with self._lock:
            self._end()

    def forget(self) -> None:
        """In a forked child: the process and the lock are the parent's."""
        if self._process is not None:
            self._process.returncode = 0  # not ours to wait for
        self.__init__()  # type: ignore[misc]

    def _ask(self, latex: str) -> float | None:
        process = self._running()
        found = process and _line(process, json.dumps(latex), PATIENCE)
        if not found:
            self._end()
            return None
        value: float | None = json.loads(found)
        return value

    def _running(self) -> subprocess.Popen[str] | None:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._end()
        script = str(Path(__file__).with_name("latex_worker.py"))
        self._process = subprocess.Popen(
            [sys.executable, "-P", script],  # -P: its folder is no place to import from
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )
        if _line(self._process, None, START) is None:
            self._end()
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
        self._process = None


def _line(process: subprocess.Popen[str], sent: str | None, seconds: float) -> str | None:
    """A line of the process, which is killed when it takes longer; None where it died."""
    assert process.stdin and process.stdout, "both are pipes"
    timer = threading.Timer(seconds, process.kill)
    timer.daemon = True
    timer.start()
    try:
        if sent is not None:
            process.stdin.write(sent + "\n")
            process.stdin.flush()
        return process.stdout.readline() or None
    except OSError:  # a pipe without a reader
        return None
    finally:
        timer.cancel()


WORKER = Worker()
atexit.register(WORKER.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=WORKER.forget)


@lru_cache(maxsize=4096)  # a message is read again at every count of votes
def worked_out(latex: str) -> float | None:
    """The value of a formula; None where it is too long, has none, or takes too much time or memory."""
    return None if len(latex) > LONGEST or "\n" in latex else WORKER.ask(latex)
