"""The values of formulas in LaTeX, from a process of its own: this file is also that process's script.

sympy evaluates untrusted text, and 9^9^9^9 would take all time and memory. A formula that takes a second of processor
time ends the process, and one that exceeds its memory has no value. The process starts with the first formula,
and again after a limit killed it; it is killed when it hangs, and when this process ends. The script reads one formula
a line as JSON and prints its value or null. It imports nothing of this package.
"""

from __future__ import annotations

import atexit
import json
import logging
import math
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

PATIENCE = 20.0  # seconds of wall clock; the process's own limit is much lower
START = 120.0  # seconds of wall clock
SECONDS = 1.0  # processor time, so that a busy machine changes no answer; 0.01 is typical
MEMORY = 2 << 30  # bytes of address space; 0.4 GiB is typical


class Worker:
    """A helper process that evaluates one formula at a time; safe to use from any thread."""

    def __init__(self) -> None:
        """Start nothing: the process starts with the first formula."""
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        atexit.register(self.end)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forget)

    def ask(self, latex: str) -> float | None:
        """Return a formula's value; None if it has none, or if a limit of time or memory killed the process."""
        # In a separate thread, since servers refuse to start a process in the thread of their event loop.
        with self._lock, ThreadPoolExecutor(1) as thread:
            return thread.submit(self._ask, latex).result()

    def end(self) -> None:
        """Kill the process if it runs; the next formula starts another."""
        with self._lock:
            self._end()

    def forget(self) -> None:
        """Drop process and lock in a forked child; they belong to the parent."""
        if self._process is not None:
            self._process.returncode = 0  # not ours to wait for
        self._lock, self._process = threading.Lock(), None

    def _ask(self, latex: str) -> float | None:
        if self._process is None or self._process.poll() is not None:
            self._start()
        line = self._process and _line(self._process, json.dumps(latex), PATIENCE)
        if not line:
            self._end()
            return None
        value: float | None = json.loads(line)
        return value

    def _start(self) -> None:
        self._end()
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__],  # -P: do not import from this folder
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )
        if _line(self._process, None, START) is None:
            self._end()

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


# The script


def timed(seconds: float) -> None:
    """End the process after this much processor time; 0 removes the limit."""
    if hasattr(signal, "ITIMER_PROF"):
        signal.signal(signal.SIGPROF, signal.SIG_DFL)  # the system's: Python's would wait for a long multiplication
        signal.setitimer(signal.ITIMER_PROF, seconds)


def answer(latex: str) -> float | None:
    """Return the value of a formula in LaTeX, or None if it has none: an unknown, an interval, nonsense."""
    try:
        from math_verify import LatexExtractionConfig, parse

        # Its own limit works only in the main thread and does not end a long multiplication.
        found = parse(f"${latex}$", [LatexExtractionConfig()], fallback_mode="no_fallback", parsing_timeout=0)
        if len(found) != 1 or not getattr(found[0], "is_number", False):
            return None
        number = complex(found[0].evalf(17))
    except (Exception, RecursionError, MemoryError):  # a grammar parser and sympy on untrusted text
        return None
    return number.real if number.imag == 0 and math.isfinite(number.real) else None


def main() -> None:
    """Evaluate formulas until the input ends."""
    if sys.platform != "win32":  # there only the time is limited, by the caller
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    logging.disable()
    answer("1")  # imports everything before the first limit
    print("ready", flush=True)
    for line in sys.stdin:
        timed(SECONDS)
        result = answer(json.loads(line))
        timed(0)
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
