"""A sandbox for Python programs that a model wrote: `run` runs one and returns its outcome."""

from sottovoce.environments.sandbox.limits import Limits, Outcome, Status
from sottovoce.environments.sandbox.running import described, run

__all__ = ["Limits", "Outcome", "Status", "described", "run"]
