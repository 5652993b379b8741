"""The scheduler: it selects the sequences of the next pass, and recovers when a pass fails.

Decoding sequences have the first slots, and sequences whose prompts are being read the next ones. No slot between
them is empty, so that the sequences of a pass are one window of the KV cache: a finished sequence is replaced by the
last decoding one, and that one by the last sequence.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import Counter, abc, deque
from dataclasses import dataclass
from functools import cached_property

from sottovoce.core.errors import EngineError, SottovoceError
from sottovoce.core.text import amount
from sottovoce.models.engine.batch import Batch
from sottovoce.models.engine.cache import ROUND, CacheManager, Limits, chain, whole_rounds
from sottovoce.models.engine.lookup import Costs, Draft
from sottovoce.models.engine.recorder import Pending
from sottovoce.models.engine.request import Reply, Request
from sottovoce.models.engine.sequence import Sequence, let_go
from sottovoce.models.huggingface.devices import out_of_memory
from sottovoce.models.huggingface.network import Network

LOGGER = logging.getLogger(__name__)
MAX_PREFILL_TOKENS = 1024  # positions of prompts that are read between two decoding steps
IDLE_PREFILL_FACTOR = 4  # factor of MAX_PREFILL_TOKENS while no sequence decodes, so that none waits for its next step
MIN_SHARED_PREFIX = 8  # positions: for a shorter common beginning of two prompts, no request waits
PASSES_BEFORE_GROWTH = 256  # passes after memory ran out until twice as many sequences are tried


@dataclass
class Statistics:
    """Counts since the engine started; only its own thread writes them."""

    requests: int = 0
    """Requests that have left: finished, failed or cancelled."""
    running: int = 0
    """Sequences that have a slot now."""
    prompt: int = 0
    """Positions of prompts that were admitted."""
    reused: int = 0
    """Positions of these prompts that were not read: from the prefix cache, or cached pieces."""
    passes: int = 0
    """Forward passes over prompts."""
    steps: int = 0
    """Forward passes of sequences that decode."""
    stepped: int = 0
    """Sequences summed over all steps: stepped / steps is the mean width."""
    widest: int = 0
    """The largest number of sequences that decoded together."""
    proposed: int = 0
    """Tokens that were proposed by lookup, and checked in a step."""
    accepted: int = 0
    """Those of them that were drawn: (stepped + accepted) / stepped is the number of tokens a step."""
    restarts: int = 0
    """Requests that were restarted because memory ran out or a pass failed."""
    cache: int = 0
    """Bytes of keys and values now: the KV cache and the prefixes."""
    cache_peak: int = 0
    """The largest value of `cache` so far."""


class Scheduler:
    """The running and waiting requests of one network. One thread uses it."""

    def __init__(self, network: Network, limits: Limits, statistics: Statistics) -> None:
        """Start empty; no memory is allocated before the first sequence."""
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        """Sequence i has slot i."""
        self.decoding = 0
        """Number of decoding sequences; they come first."""
        self.caches = CacheManager(network, limits)
        self._network, self._limits, self._statistics = network, limits, statistics
        self._version, self._pending = network.version, Pending(network.table)
        self._steps: Batch | None = None
        """The batch of the decoding steps, until its sequences change."""
        self._prompts_next = True
        self._most, self._passes_since_failure = limits.slots, 0
        """Maximum number of sequences at a time, lower for a while after memory ran out; and the passes since then."""
        self._looks_up = limits.lookup and not limits.exact and not network.attention.alone
        self._suspects: set[Sequence] = set()
        """Sequences of which one caused a failed pass: until all have ended, one runs at a time."""

    @cached_property
    def costs(self) -> Costs:
        """The time of passes that check proposed tokens."""
        return Costs.of(self._network)

    @property
    def busy(self) -> bool:
        """True while any request runs or waits."""
        return bool(self.running or self.waiting)

    def schedule(self) -> Batch:
        """Return the next pass; decoding steps and chunks of prompts take turns."""
        self._drop_cancelled()
        self._look_for_changes()
        self._let_decode()
        self._admit()
        prompts = len(self.running) > self.decoding and (self._prompts_next or not self.decoding)
        self._prompts_next = not prompts
        if prompts:
            return self._prompts()
        steps = self._steps = self._steps or Batch(self.running[: self.decoding], self._pending)
        proposed = self._drafts(steps)
        if not proposed:
            return steps
        steps.hand_over()
        return Batch(steps.sequences, self._pending, drafts=proposed, recent=steps.recent)

    def _drafts(self, steps: Batch) -> list[Draft]:
        """Return the tokens to check behind the last of each decoding sequence; [] for a plain step."""
        tokens = steps.open and all(each.next_row is None for each in steps.sequences)
        if not self._looks_up or not tokens or self._network.hooked:
            return []
        proposed = [each.propose() for each in steps.sequences]
        hopes = [(len(ids), chance) for ids, chance in proposed]
        width = self.costs.width(hopes) if any(most for most, _ in hopes) else 0
        pairs = zip(steps.sequences, proposed, strict=True)
        drafts = [each.follow(ids[:width]) for each, (ids, _) in pairs] if width else []
        return drafts if any(draft.ids for draft in drafts) else []

    def learn(self, batch: Batch, taken: abc.Sequence[int]) -> None:
        """Note how many of the proposed tokens were drawn."""
        counts = Counter(batch.owners[i] for i in taken)
        for i, (sequence, draft) in enumerate(zip(batch.sequences, batch.drafts, strict=True)):
            accepted = max(counts[i] - 1, 0)
            sequence.lookup.learn(len(draft.ids), accepted)
            self._statistics.proposed += len(draft.ids)
            self._statistics.accepted += accepted

    def steady(self, batch: Batch) -> bool:
        """Return True if the next pass has the same sequences, unless one of them stops with the tokens of this one."""
        same = batch is self._steps and batch.foreseen and len(self.running) == self.decoding
        full = not self.waiting or self.decoding >= self._most
        same_model = self._network.version == self._version and not self._network.hooked
        goes_on = same and full and same_model and all(each.goes_on for each in self.running)
        return goes_on and not self._drafts(batch)

    def end_steps(self) -> None:
        """Give the decoding sequences their records before any of them leaves its slot."""
        if self._steps is not None:
            self._steps.end()
            self._steps = None

    def _prompts(self) -> Batch:
        """Return the next chunk of all unread prompts together, each with its part of the positions."""
        first, sequences = self.decoding, self.running[self.decoding :]
        long = not first or self._network.device.type == "cuda"  # there a short chunk takes as long as a long one
        chunk = max((MAX_PREFILL_TOKENS * IDLE_PREFILL_FACTOR if long else MAX_PREFILL_TOKENS) // len(sequences), 1)
        if self._limits.exact or self._network.attention.alone:
            sequences = sequences[:1]
        # An exact chunk ends where one of a prompt without a cached beginning does, so that sums have one order.
        block = ROUND if self._limits.exact else 0
        read = [each.take_chunk(chunk, block) for each in sequences]
        return Batch(sequences, self._pending, first, read)

    def _let_decode(self) -> None:
        """Append sequences that have read their prompts to the decoding ones."""
        running = self.running
        for i in range(self.decoding, len(running)):
            if running[i].filled >= running[i].length:
                self.end_steps()
                to = self.decoding
                if i != to:
                    self.caches.kv.swap(i, to, max(running[i].filled, running[to].filled))
                    running[i], running[to] = running[to], running[i]
                self.decoding += 1

    def _look_for_changes(self) -> None:
        """Drop cached prefixes if the model changed; share no running sequence if it changed or has others' hooks."""
        changed, self._version = self._network.version != self._version, self._network.version
        if changed:
            self.caches.prefixes.shrink(0)
        if changed or self._network.hooked:
            for sequence in self.running:
                sequence.private = True

    def _admit(self) -> None:
        """Start waiting requests in order; one that shares its beginning with a prompt being read waits for it."""
        held = list[Sequence]()
        while self.waiting and len(self.running) < (1 if self._suspects else self._most):
            sequence, used = self.waiting[0], [each.filled for each in self.running]
            running, others = [each.request for each in self.running], len(self.waiting) - 1
            if self._shares(sequence):
                held.append(sequence)
            elif self.caches.room_for(sequence.request, running, used, others):
                self._start(sequence)
            elif self.running:
                break
            else:
                self._done(sequence, self._too_large(sequence.request))
            self.waiting.popleft()
        self.waiting.extendleft(reversed(held))

    def _shares(self, sequence: Sequence) -> bool:
        """Return True if a prompt being read will soon serve this one, or serve at least half of its unread part."""
        prefixes = self.caches.prefixes
        known = prefixes.known(sequence.blocks)
        reading = [(each, common(each.blocks, sequence.blocks)) for each in self.running[self.decoding :]]
        serving = [(each.length - each.filled, n - known) for each, n in reading if n > known]
        shared = max((n for _, n in serving), default=0) * prefixes.block
        if shared < MIN_SHARED_PREFIX or not prefixes.budget or self._network.hooked:
            return False
        return serving[-1][0] <= MAX_PREFILL_TOKENS or 2 * shared >= sequence.length - known * prefixes.block

    def _start(self, sequence: Sequence) -> None:
        sequence.start(self._pending, len(self._network.layers) - 1)
        sequence.private = self._network.hooked
        if not sequence.private:
            slot = len(self.running)
            sequence.filled = sequence.reused = self.caches.prefixes.restore(sequence.blocks, self.caches.kv, slot)
        self.running.append(sequence)
        self._statistics.prompt += sequence.length
        self._statistics.reused += sequence.reused
        counts = sequence.length, sequence.reused, len(self.running) - 1
        LOGGER.info("reads a prompt of %d tokens, %d of them known, beside %d others", *counts)

    def _too_large(self, request: Request) -> EngineError:
        slots = self._limits.slots if self._limits.exact else 1
        alone = self.caches.kv.nbytes(slots, whole_rounds(request.longest + 1))
        return EngineError(
            f"a prompt of {request.length} tokens and a reply of up to {request.stop.max_new} need "
            f"{amount(alone)} for keys and values, but the budget is "
            f"{amount(self.caches.budget)}; shorten the prompt, lower max_tokens, or raise it (`memory`)"
        )

    def finish(self, sequence: Sequence) -> None:
        """Remove a sequence that ended for any reason."""
        self.end_steps()
        if sequence.finish is not None and not self._limits.exact:
            self.remember(sequence, replied=True)
        if sequence.finish is not None and sequence.error is None:
            try:
                sequence.take_cache(self.caches.kv, self.running.index(sequence))
            except Exception as error:  # memory may be too short
                sequence.fail(error)
        self._remove(sequence)
        self._done(sequence, sequence.reply())

    def remember(self, sequence: Sequence, *, replied: bool) -> None:
        """Cache its prompt for other sequences, or with `replied` everything it read."""
        if not self.caches.prefixes.budget or sequence.private:
            return
        keys = sequence.keys() if replied else sequence.prompt_keys
        digests = chain(keys, self._limits.block, sequence.blocks)
        self.caches.prefixes.store(digests, self.caches.kv, self.running.index(sequence))

    def _drop_cancelled(self) -> None:
        for sequence in [each for each in self.running if each.future.done() or each.error]:
            sequence.finish = None
            self.finish(sequence)
        gone = dict.fromkeys(each for each in self.waiting if each.future.done())  # checked once: it may change
        if gone:
            self.waiting = deque(each for each in self.waiting if each not in gone)
        for sequence in gone:
            self._done(sequence, None)

    def _done(self, sequence: Sequence, ended: Reply | SottovoceError | None) -> None:
        self._suspects.discard(sequence)
        self._statistics.requests += 1
        sequence.settle(ended)

    def _remove(self, sequence: Sequence) -> None:
        self.end_steps()
        at = self.running.index(sequence)
        if sequence.finish is None:  # failed, cancelled or sent back: its values may not be finite
            self.caches.kv.clear(at)
        if at < self.decoding:
            self.decoding -= 1
            self._move(self.decoding, at)
            at = self.decoding
        self._move(len(self.running) - 1, at)
        self.running.pop()

    def _move(self, source: int, target: int) -> None:
        if source != target:
            self.caches.kv.move(source, target, self.running[source].filled)
            self.running[target] = self.running[source]

    def retry(self, sequences: list[Sequence], error: Exception) -> None:
        """Restart the requests of a failed pass, with less memory or one by one; fail a request that ran alone."""
        let_go(error)
        if out_of_memory(error) and self.caches.prefixes.nbytes:
            self.caches.prefixes.shrink(0)  # and the pass is repeated
        elif out_of_memory(error) and len(self.running) > 1:
            self._most, self._passes_since_failure = -(-len(self.running) // 2), 0
            self._send_back(self.running[self._most :])
        elif len(sequences) > 1:
            self._suspects.update(sequences)
            self._send_back(sequences)
        else:
            sequences[0].fail(error)
            self.finish(sequences[0])

    def _send_back(self, sequences: list[Sequence]) -> None:
        for sequence in sequences:
            sequence.finish = None
            self._remove(sequence)
            sequence.start(self._pending, len(self._network.layers) - 1)  # drops what was recorded
        self._statistics.restarts += len(sequences)
        self.waiting.extendleft(reversed(sequences))

    def count(self, batch: Batch) -> None:
        """Add a pass to the statistics."""
        statistics, n = self._statistics, len(batch.sequences)
        if batch.prompts:
            statistics.passes += 1
            statistics.reused += sum(each.pasted for each in batch.sequences)
        else:
            statistics.steps += 1
            statistics.stepped += n
            statistics.widest = max(statistics.widest, n)

    def rest(self) -> None:
        """Update the statistics, allow more sequences again after a while, and free memory when idle."""
        self._statistics.running, self._statistics.cache = len(self.running), self.caches.nbytes
        self._statistics.cache_peak = max(self._statistics.cache_peak, self.caches.nbytes)
        self._passes_since_failure += 1
        if not self.busy:
            self.caches.rest()
            self._most = self._limits.slots
        elif self._passes_since_failure % PASSES_BEFORE_GROWTH == 0:
            self._most = min(2 * self._most, self._limits.slots)


def common(first: abc.Sequence[bytes], second: abc.Sequence[bytes]) -> int:
    """Return how many blocks two prompts share; each digest is also over all that precedes its block, see `chain`."""
    return bisect_left(range(min(len(first), len(second))), True, key=lambda i: first[i] != second[i])
