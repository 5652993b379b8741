"""What one reply keeps besides its ids: states, mean embeddings, and numbers made of the logits.

A step leaves what it has; every few steps it is turned into numbers at once, since statistics of
one position cost as many calls as those of thirty. Nothing is kept of a step's other rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from sottovoce.models import sampling
from sottovoce.models.passes import FINAL
from sottovoce.models.request import Record, Sparse, Stats

STEPS = 32  # that wait, at most
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
    rows: dict[str, list[torch.Tensor]] = field(default_factory=dict)
    _states: dict[int, torch.Tensor] = field(default_factory=dict)
    _seen: dict[int, list[torch.Tensor]] = field(default_factory=dict)
    _ids: list[int] = field(default_factory=list)
    _logits: list[torch.Tensor] = field(default_factory=list)
    _weights: list[torch.Tensor] = field(default_factory=list)
    _stats: list[Stats] = field(default_factory=list)
    _sparse: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)

    def see(self, i: int, states: Mapping[int, torch.Tensor]) -> None:
        """Keep row i of the states (b, H) of a pass, by layer."""
        for layer in self.record.layers:
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
            self.rows.setdefault(key, []).append(row)
        if self.record.stats:
            self._ids.append(id)
            self._logits.append(logits)
        if self.record.sparse and weights is not None:
            self._weights.append(weights)
        waiting = max(len(self._logits), len(self._weights))
        if waiting >= STEPS or waiting * len(logits) >= WAITING:
            self._settle_numbers()

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

    def _settle_numbers(self) -> None:
        if self._logits:
            logits, ids = torch.stack(self._logits), torch.tensor(self._ids, device=self._logits[0].device)
            self._stats.append(_stats(logits, ids, self.record.top))
        if self._weights:
            weights = torch.stack(self._weights)
            ids_and_values = weights.topk(min(self.record.sparse, weights.shape[-1]), dim=-1)
            self._sparse.append((ids_and_values.indices.cpu(), ids_and_values.values.cpu()))
        for waiting in (self._ids, self._logits, self._weights):
            waiting.clear()

    def states(self, n: int) -> dict[int, torch.Tensor]:
        """By layer, the first n states (n, H), on the CPU."""
        self._settle_states()
        if any(states.is_pinned() for states in self._states.values()):
            torch.cuda.current_stream().synchronize()  # the copies run beside the next steps
        return {layer: _trimmed(self._states[layer], n) for layer in self.record.layers}

    def means(self, n: int) -> dict[str, torch.Tensor]:
        """By table, the first n means (n, E), on the CPU."""
        return {key: torch.stack(rows[:n]).cpu() for key, rows in self.rows.items() if rows[:n]}

    def stats(self, n: int) -> Stats | None:
        """Of the first n positions."""
        if not self.record.stats:
            return None
        self._settle_numbers()
        parts = self._stats or [_no_stats(self.record.top)]
        return Stats(*(torch.cat([getattr(part, name) for part in parts])[:n] for name in Stats.__dataclass_fields__))

    def sparse(self, n: int) -> Sparse | None:
        """Of the first n positions; None where there is none."""
        self._settle_numbers()
        if not self._sparse or not n:
            return None
        ids, weights = (torch.cat(parts)[:n] for parts in zip(*self._sparse, strict=True))
        return Sparse(ids, weights, weights.sum(-1))


def _stats(logits: torch.Tensor, ids: torch.Tensor, top: int) -> Stats:
    """Logits (n, V) and ids (n,) -> numbers on the CPU."""
    logprob, entropy, varentropy, kurtosis = sampling.statistics(logits, ids).cpu().unbind(-1)
    best = logits.log_softmax(-1).topk(min(top, logits.shape[-1]), dim=-1)
    return Stats(logprob, entropy, varentropy, kurtosis, best.indices.cpu(), best.values.cpu())


def _no_stats(top: int) -> Stats:
    none = torch.zeros(0)
    return Stats(none, none, none, none, torch.zeros(0, top, dtype=torch.long), torch.zeros(0, top))


def _trimmed(states: torch.Tensor, n: int) -> torch.Tensor:
    """The first n rows: a view where most are taken, else a copy, so that a short reply holds no long buffer."""
    return states[:n] if 2 * n > len(states) else states[:n].clone()
