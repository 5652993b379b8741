"""`python -m sottovoce`, and the command `sottovoce`: almost nothing is imported before a Ctrl-C can be answered."""

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

STOPPED = 130  # the shells' code for Ctrl-C


def main() -> int:
    """Import the command line and run it; a Ctrl-C before or after that ends the process at once, without a word.

    While modules are loaded an exception would be anybody's to catch: numpy makes an ImportError of it.
    """
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # in the background shells have it ignored
    _answer(_leave, usual)
    from sottovoce.cli import main as run

    _answer(signal.default_int_handler, usual)  # this one, since asyncio puts its own in its place alone
    try:
        return run()
    finally:
        _answer(_leave, usual)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()


def _answer(handler: Callable[[int, FrameType | None], object], usual: bool) -> None:
    if usual:
        signal.signal(signal.SIGINT, handler)


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(STOPPED)


if __name__ == "__main__":
    sys.exit(main())
