"""Python programs that a model wrote, run at a distance: `run` says what came of one."""

from sottovoce.environments.sandbox.limits import Limits, Outcome, Status
from sottovoce.environments.sandbox.running import described, run

__all__ = ["Limits", "Outcome", "Status", "described", "run"]
