"""What one reply keeps besides its ids: states, mean embeddings, and numbers made of the logits.

A step leaves what it has; every few steps it is turned into numbers at once, since statistics of
one position cost as many calls as those of thirty. Nothing is kept of a step's other rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from sottovoce.models.engine import sampling
from sottovoce.models.engine.memory import upload
from sottovoce.models.engine.request import Record, Sparse, Stats
from sottovoce.models.huggingface.passes import FINAL

STEPS = 32  # that wait, at most
_Largest = tuple[torch.Tensor, torch.Tensor]
WAITING = 1 << 20  # numbers of a row's logits that wait, at most: 4 MB


@dataclass(eq=False)
class Recorder:
    """Records of one row, position by position."""

    record: Record
    room: int
    """Positions that there may be, the last of the prompt among them."""
    normed: int | None
    """The layer whose state is taken after the final norm."""
    n: int = 0
    """Positions whose states are kept."""
    _states: dict[int, torch.Tensor] = field(default_factory=dict)
    _means: dict[str, list[torch.Tensor]] = field(default_factory=dict)
    _stats: list[torch.Tensor] = field(default_factory=list)
    _tops: list[_Largest] = field(default_factory=list)
    _sparse: list[_Largest] = field(default_factory=list)
    # What waits, a position each:
    _seen: dict[int, list[torch.Tensor]] = field(default_factory=dict)
    _rows: dict[str, list[torch.Tensor]] = field(default_factory=dict)
    _ids: list[int] = field(default_factory=list)
    _logits: list[torch.Tensor] = field(default_factory=list)
    _weights: list[torch.Tensor] = field(default_factory=list)

    def see(self, i: int, states: Mapping[int, torch.Tensor]) -> None:
        """Keep row i of the states (b, H) of a pass, by layer."""
        for layer in dict.fromkeys(self.record.layers):
            state = states[FINAL if layer == self.normed else layer][i]
            self._seen.setdefault(layer, []).append(state)
        self.n += 1
        if self.record.layers and len(self._seen[self.record.layers[0]]) >= STEPS:
            self._settle_states()

    def keep(
        self, id: int, logits: torch.Tensor, weights: torch.Tensor | None, rows: Mapping[str, torch.Tensor]
    ) -> None:
        """Keep a position: its token, logits (V,), averaging weights (V,) and means (E,) by table."""
        for key, row in rows.items():
            self._rows.setdefault(key, []).append(row)
        self._ids.append(id)
        if self.record.stats:
            self._logits.append(logits)
        if self.record.sparse and weights is not None:
            self._weights.append(weights)
        wide = len(self._logits) + len(self._weights)
        if len(self._ids) >= STEPS or wide * len(logits) >= WAITING:
            self._settle()

    def _settle_states(self) -> None:
        for layer, seen in self._seen.items():
            if not seen:
                continue
            first = seen[0]
            if layer not in self._states:  # once, at its full size: growing would need twice the memory
                self._states[layer] = torch.empty(self.room, len(first), dtype=first.dtype, pin_memory=first.is_cuda)
            start = self.n - len(seen)
            self._states[layer][start : self.n].copy_(torch.stack(seen), non_blocking=True)
            seen.clear()

    def _settle(self) -> None:
        """Turn what waits into numbers; they stay on the device, so that no step waits for a copy."""
        for key, rows in self._rows.items():
            self._means.setdefault(key, []).append(torch.stack(rows))
        if self._logits:
            logits = torch.stack(self._logits)
            ids = upload(self._ids, logits.device)
            self._stats.append(sampling.statistics(logits, ids))
            self._tops.append(_largest(logits.log_softmax(-1), self.record.top))
        if self._weights:
            self._sparse.append(_largest(torch.stack(self._weights), self.record.sparse))
        for waiting in (self._rows, self._ids, self._logits, self._weights):
            waiting.clear()

    def states(self, n: int) -> dict[int, torch.Tensor]:
        """By layer, the first n states (n, H), on the CPU."""
        self._settle_states()
        if any(states.is_pinned() for states in self._states.values()):
            torch.cuda.current_stream().synchronize()  # the copies ran beside the steps
        return {layer: _trimmed(self._states[layer], n) for layer in self.record.layers}

    def means(self, n: int) -> dict[str, torch.Tensor]:
        """By table, the first n means (n, E), on the model's device."""
        self._settle()
        return {key: torch.cat(parts)[:n] for key, parts in self._means.items()} if n else {}

    def stats(self, n: int) -> Stats | None:
        """Of the first n positions."""
        self._settle()
        if not self.record.stats:
            return None
        if not self._stats:
            return _no_stats(self.record.top)
        logprob, entropy, varentropy, kurtosis = torch.cat(self._stats)[:n].cpu().unbind(-1)
        return Stats(logprob, entropy, varentropy, kurtosis, *_first(self._tops, n))

    def sparse(self, n: int) -> Sparse | None:
        """Of the first n positions; None where there is none."""
        self._settle()
        if not self._sparse or not n:
            return None
        ids, weights = _first(self._sparse, n)
        return Sparse(ids, weights, weights.sum(-1))


def _largest(values: torch.Tensor, k: int) -> _Largest:
    """Ids and values (n, k) of the largest of each position, fewer where the vocabulary is smaller."""
    best = values.topk(min(k, values.shape[-1]), dim=-1)
    return best.indices, best.values


def _first(parts: Sequence[_Largest], n: int) -> _Largest:
    ids, values = (torch.cat(each)[:n].cpu() for each in zip(*parts, strict=True))
    return ids, values


def _no_stats(top: int) -> Stats:
    none = torch.zeros(0)
    return Stats(none, none, none, none, torch.zeros(0, top, dtype=torch.long), torch.zeros(0, top))


def _trimmed(states: torch.Tensor, n: int) -> torch.Tensor:
    """The first n rows: a view where most are taken, else a copy, so that a short reply holds no long buffer."""
    return states[:n] if 2 * n > len(states) else states[:n].clone()
