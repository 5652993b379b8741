"""What an engine did so far, in numbers: for tests, benchmarks and whoever looks for a bottleneck."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Statistics:
    """Counts since the engine began; its own thread writes them."""

    requests: int = 0
    """That left: finished, failed or cancelled."""
    prompt: int = 0
    """Positions of prompts that were admitted."""
    reused: int = 0
    """Of them, those that came from the prefix cache."""
    passes: int = 0
    """Forward passes over prompts."""
    steps: int = 0
    """Forward passes of sequences that decode."""
    stepped: int = 0
    """Sequences of all steps: stepped / steps is the mean width."""
    widest: int = 0
    """The most sequences that decoded together."""
    restarts: int = 0
    """Requests that began anew: memory ran out, or a pass broke."""
    cache: int = 0
    """Bytes of keys and values, now: the KV cache and the prefixes."""
    cache_peak: int = 0
    """The most there were."""
