"""Entry point of `python -m sottovoce` and of the command `sottovoce`; it handles Ctrl-C before it imports the rest."""

import os
import signal
import sys
from types import FrameType

STOPPED = 130  # the shells' code for Ctrl-C


def main() -> int:
    """Import and run the command line; a Ctrl-C before or after the run ends the process at once and silently.

    An exception raised during imports could be caught by any module: numpy turns it into an ImportError.
    """
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # shells ignore SIGINT in background jobs
    if usual:
        signal.signal(signal.SIGINT, _leave)
    from sottovoce.cli.main import main as run

    if usual:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # asyncio replaces only this handler
    try:
        return run()
    finally:
        if usual:
            signal.signal(signal.SIGINT, _leave)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(STOPPED)


if __name__ == "__main__":
    sys.exit(main())
