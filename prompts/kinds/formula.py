"""Evaluation of LaTeX formulas in a separate process, which starts with the first formula.

Formulas are rare, and plain numbers never come here. The process takes half a second to start and about 10 ms for a
formula; it is killed when it hangs, and ends with ours.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from sottovoce.core.worker import Worker

LONGEST = 200  # characters; no result is longer
WORKER = Worker(Path(__file__).with_name("latex_worker.py"))


@lru_cache(maxsize=4096)  # a message is parsed again at every count of votes
def worked_out(latex: str) -> float | None:
    """Return a formula's value; None if it is too long, has none, or takes too much time or memory."""
    found = None if len(latex) > LONGEST or "\n" in latex else WORKER.ask(latex)
    return None if found is None else float(found)
