"""The process that works formulae out: a formula a line comes in as JSON, its value or null goes out.

It is run as a file, and imports nothing of ours. sympy works out what a stranger wrote, and 9^9^9^9 takes all time
and memory there is: so each formula has a second of the processor's time, and all of them a bounded memory; what
exceeds the one ends the process (`formula` starts another), what exceeds the other is no number.
"""

import json
import logging
import math
import signal
import sys

SECONDS = 1.0  # of the processor's time, so that a busy machine changes no answer; 0.01 is usual
MEMORY = 2 << 30  # bytes of address space; 0.4 GiB are usual


def bound() -> None:
    """Bound the memory, where the system can."""
    try:
        import resource
    except ImportError:  # Windows, where the time alone is bounded, by whoever asks
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def timed(seconds: float) -> None:
    """End the process when so much of the processor's time is spent; 0 takes that back."""
    if hasattr(signal, "ITIMER_PROF"):
        signal.signal(signal.SIGPROF, signal.SIG_DFL)  # the system's own: Python's would wait for a long multiplication
        signal.setitimer(signal.ITIMER_PROF, seconds)


def value(latex: str) -> float | None:
    """The value of a formula in LaTeX, or None where it has none: an unknown in it, an interval, nonsense."""
    from math_verify import LatexExtractionConfig, parse

    # Its own limit works in the main thread alone and does not end a long multiplication.
    found = parse(f"${latex}$", [LatexExtractionConfig()], fallback_mode="no_fallback", parsing_timeout=0)
    if len(found) != 1 or not getattr(found[0], "is_number", False):
        return None
    number = complex(found[0].evalf(17))
    return number.real if number.imag == 0 and math.isfinite(number.real) else None


def answer(latex: str) -> float | None:
    """`value`, and None for whatever goes wrong in it."""
    try:
        return value(latex)
    except (Exception, RecursionError, MemoryError):  # a parser of grammars, and sympy, on a stranger's text
        return None


def main() -> None:
    """Answer until there is no more to answer."""
    bound()
    logging.disable()
    answer("1")  # loads everything before the first is timed
    print("ready", flush=True)
    for line in sys.stdin:
        timed(SECONDS)
        found = answer(json.loads(line))
        timed(0)
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
