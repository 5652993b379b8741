"""A process of ours that works out what a stranger wrote, within limits that it sets itself.

Its script imports nothing of ours, prints "ready", and answers a line of JSON with a line of JSON. It is started when
it is first asked, again after it died of a limit, and ended when it hangs, and with ours.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

PATIENCE = 20.0  # seconds of the clock, in which the process itself gives up long before
START = 120.0  # seconds of the clock


class Worker:
    """The process, one question at a time; any thread may ask."""

    def __init__(self, script: Path) -> None:
        """Start nothing yet."""
        self._script = script
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        atexit.register(self.end)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forget)

    def ask(self, asked: Any) -> Any:  # Any: JSON
        """Return what the process answers; None where it dies of a limit of time or memory."""
        # A thread of its own, since servers refuse to start a process in the one of their event loop.
        with self._lock, ThreadPoolExecutor(1) as thread:
            return thread.submit(self._ask, asked).result()

    def end(self) -> None:
        """End the process, if there is one; the next question starts another."""
        with self._lock:
            self._end()

    def forget(self) -> None:
        """Leave process and lock to the parent, in a forked child."""
        if self._process is not None:
            self._process.returncode = 0  # not ours to wait for
        self._lock, self._process = threading.Lock(), None

    def _ask(self, asked: Any) -> Any:
        process = self._running()
        found = process and _line(process, json.dumps(asked), PATIENCE)
        if not found:
            self._end()
            return None
        return json.loads(found)

    def _running(self) -> subprocess.Popen[str] | None:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._end()
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(self._script)],  # -P: its folder is no place to import from
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
