"""The one decoding loop, by continuous batching: schedule, run, postprocess."""

from __future__ import annotations

import threading

import torch

from sottovoce.models.engine.cache_manager import Limits
from sottovoce.models.engine.runner import Batch, Made, Runner
from sottovoce.models.engine.scheduler import Scheduler
from sottovoce.models.engine.sequence import Detokenizers
from sottovoce.models.engine.statistics import Statistics
from sottovoce.models.huggingface.network import Network


class Loop:
    """Requests on one network, pass by pass."""

    def __init__(
        self,
        network: Network,
        detokenizers: Detokenizers,
        limits: Limits,
        statistics: Statistics,
        cancels: threading.Event | None = None,
    ) -> None:
        """Start empty; `cancels` is set when a job was cancelled."""
        self.scheduler = Scheduler(network, detokenizers, limits, statistics, cancels or threading.Event())
        self._runner = Runner(network, exact=limits.exact, slots=limits.slots)

    @torch.inference_mode()
    def step(self) -> None:
        """Make one pass with whoever is next."""
        batch = self.scheduler.schedule()
        if batch.sequences:
            try:
                made = self._runner.run(batch, self.scheduler.caches.kv)
            except Exception as error:  # whatever breaks in a model's own code must reach its request, and no other
                self.scheduler.retry(batch.sequences, error)
            else:
                self._postprocess(batch, made)
        self.scheduler.rest()

    def _postprocess(self, batch: Batch, made: Made) -> None:
        """Each takes what came of it; those that have ended leave."""
        self.scheduler.count(batch)
        for i, (sequence, taken) in enumerate(zip(batch.sequences, batch.takes, strict=True)):
            sequence.read(taken)
            choice = made.choices.get(i)
            if choice is None:
                continue
            if sequence.filled == sequence.length and choice.id >= 0:  # its prompt left sound numbers
                self.scheduler.remember(sequence, replied=False)
            try:
                sequence.see(i, made.states)
                sequence.keep(choice)
            except Exception as error:  # a listener's own: it ends its own request
                sequence.fail(error)
        for sequence in batch.sequences:
            if sequence.ended:
                self.scheduler.finish(sequence)
