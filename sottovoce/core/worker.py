"""A helper process that evaluates untrusted text within limits that it sets for itself.

Its script imports nothing of this package, prints "ready", and answers each line of JSON with a line of JSON. The
process starts with the first question, and again after a limit killed it. It is killed when it hangs, and when this
process ends.
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

from sottovoce.core.any_types import JSONValue

PATIENCE = 20.0  # seconds of wall clock; the process's own limit is much lower
START = 120.0  # seconds of wall clock


class Worker:
    """A helper process that answers one question at a time; safe to use from any thread."""

    def __init__(self, script: Path) -> None:
        """Store the path of the script; the process starts with the first question."""
        self._script = script
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        atexit.register(self.end)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forget)

    def ask(self, question: JSONValue) -> JSONValue:
        """Return the answer of the process; None if a limit of time or memory killed it."""
        # In a separate thread, since servers refuse to start a process in the thread of their event loop.
        with self._lock, ThreadPoolExecutor(1) as thread:
            return thread.submit(self._ask, question).result()

    def end(self) -> None:
        """Kill the process if it runs; the next question starts another."""
        with self._lock:
            self._end()

    def forget(self) -> None:
        """Drop process and lock in a forked child; they belong to the parent."""
        if self._process is not None:
            self._process.returncode = 0  # not ours to wait for
        self._lock, self._process = threading.Lock(), None

    def _ask(self, question: Any) -> Any:
        process = self._running()
        line = process and _line(process, json.dumps(question), PATIENCE)
        if not line:
            self._end()
            return None
        return json.loads(line)

    def _running(self) -> subprocess.Popen[str] | None:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._end()
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(self._script)],  # -P: do not import from the script's folder
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
    """Return the next line of the process, or None if it died; kill it after so many seconds."""
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
