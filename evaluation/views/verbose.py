"""What the program does, told on stderr: what is loaded, which prompts are read, where a run is kept.

Our modules say so to Python's `logging`, below the logger `sottovoce`; nobody hears it unless asked for.
"""

from __future__ import annotations

import logging
import sys

from sottovoce.evaluation.views.printable import one_line


class _OnStderr(logging.Handler):
    """Writes to what is stderr at the time: a live view puts something of its own there, which prints above it."""

    def emit(self, record: logging.LogRecord) -> None:
        """One harmless line, with the seconds since the program began."""
        said = f"[{record.relativeCreated / 1000:.1f} s] {record.name}: {record.getMessage()}"
        print(one_line(said), file=sys.stderr, flush=True)


def tell_all() -> None:
    """From now on all that our modules say is written to stderr."""
    logger = logging.getLogger("sottovoce")
    logger.setLevel(logging.INFO)
    if not any(isinstance(handler, _OnStderr) for handler in logger.handlers):
        logger.addHandler(_OnStderr())
