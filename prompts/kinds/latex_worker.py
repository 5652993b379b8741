"""The process that evaluates formulas: it reads one formula a line as JSON, and prints its value or null.

It imports nothing of this package. sympy evaluates untrusted text, and 9^9^9^9 would take all time and memory: a
formula that takes a second of processor time ends the process, and one that exceeds its memory has no value.
"""

import json
import logging
import math
import signal
import sys

SECONDS = 1.0  # processor time, so that a busy machine changes no answer; 0.01 is typical
MEMORY = 2 << 30  # bytes of address space; 0.4 GiB is typical


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
