"""What an engine did so far, in numbers: for tests, benchmarks and whoever looks for a bottleneck."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Tally:
    """Counts since the engine began; its own thread writes them."""

    requests: int = 0
    """That left: finished, failed or cancelled."""
    prompt: int = 0
    """Positions of prompts that got a slot."""
    reused: int = 0
    """Of them, those that came from the prefix cache."""
    passes: int = 0
    """Forward passes over prompts."""
    steps: int = 0
    """Decoding steps."""
    stepped: int = 0
    """Rows of all decoding steps: stepped / steps is the mean width."""
    widest: int = 0
    """The most rows that decoded together."""
    restarts: int = 0
    """Requests that began anew: memory ran out, or a neighbour broke the pass."""
    cache: int = 0
    """Bytes of keys and values, now: slots and prefixes."""
    cache_peak: int = 0
    """The most there were."""

    def hold(self, nbytes: int) -> None:
        """Note how many bytes of keys and values there are."""
        self.cache = nbytes
        self.cache_peak = max(self.cache_peak, nbytes)

    def step(self, rows: int) -> None:
        """Count a decoding step of so many rows."""
        self.steps += 1
        self.stepped += rows
        self.widest = max(self.widest, rows)
