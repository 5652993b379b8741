"""The log on stderr: what is loaded, which prompts are read, where a run is stored.

Our modules write to Python's `logging`, below the logger `sottovoce`; nothing is shown unless requested.
"""

from __future__ import annotations

import logging
import sys

from sottovoce.core.text import one_line


class _OnStderr(logging.Handler):
    """A handler for the current stderr: a live view replaces stderr by an object that prints above the view."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one harmless line, with the seconds since the program began."""
        said = f"[{record.relativeCreated / 1000:.1f} s] {record.name}: {record.getMessage()}"
        print(one_line(said), file=sys.stderr, flush=True)


def tell_all() -> None:
    """Write all log lines of our modules to stderr from now on."""
    logger = logging.getLogger("sottovoce")
    logger.setLevel(logging.INFO)
    if not any(isinstance(handler, _OnStderr) for handler in logger.handlers):
        logger.addHandler(_OnStderr())
