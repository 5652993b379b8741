"""The progress of one row of a batch: what it kept, when it stops, and the reply it becomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch

from sottovoce.errors import EngineError
from sottovoce.models.network import FINAL
from sottovoce.models.request import Ids, Reply, Request, Sparse, Stats, Usage
from sottovoce.models.sampling import uniforms
from sottovoce.models.text import Detokenizer, first_stop, held_back, overlapping

Finish = Literal["stop", "stop_text", "length"]


@dataclass(frozen=True, eq=False)
class Job:
    """A request on its way through the engine."""

    request: Request
    cancelled: Callable[[], bool] = lambda: False
    on_text: Callable[[str], None] | None = None
    """Gets the reply's text so far whenever it grew, from the engine's thread."""


@dataclass(frozen=True, eq=False)
class Choice:
    """What one step chose for one row."""

    id: int
    """-1 where the logits were not finite."""
    argmax: int
    """Of the logits; the id again where no row of the batch stops by it."""
    stats: torch.Tensor | None = None
    top: tuple[torch.Tensor, torch.Tensor] | None = None
    """Ids and log-probabilities of the most probable tokens: at least as many as asked for."""
    rows: Mapping[str, torch.Tensor] = field(default_factory=dict)
    sparse: tuple[torch.Tensor, torch.Tensor] | None = None
    """Ids and values of the largest averaging weights: at least as many as asked for."""


class Row:
    """One request while it decodes."""

    def __init__(self, job: Job, detokenizers: Mapping[bool, Detokenizer], last_layer: int) -> None:
        """Draw the row's uniforms and start empty."""
        self.job, self.request = job, job.request
        self.ids: list[int] = []
        self.seen = [id for piece in self.request.prompt if isinstance(piece, Ids) for id in piece.ids]
        self.u: list[float] = uniforms(self.request.sampling.seed, self.request.stop.max_new).tolist()
        self.finish: Finish | None = None
        self.error: EngineError | None = None
        self._text = detokenizers[self.request.stop.special]
        self._shown = 0
        self._choices: list[Choice] = []
        self._states: dict[int, list[torch.Tensor]] = {layer: [] for layer in self.request.record.layers}
        self._normed = last_layer if self.request.record.final_norm else None

    @property
    def left(self) -> bool:
        """True once the row needs no further forward pass."""
        if self.error or self.job.cancelled():
            return True
        return self.finish is not None and not self._lacks_state

    @property
    def _lacks_state(self) -> bool:
        return any(len(states) < len(self.ids) + 1 for states in self._states.values())

    def see(self, i: int, states: Mapping[int, Sequence[torch.Tensor]]) -> None:
        """Keep the states of a forward pass, by layer and row; the row stands at index i of the batch."""
        for layer, kept in self._states.items():
            kept.append(states[FINAL if layer == self._normed else layer][i])

    def keep(self, choice: Choice) -> None:
        """Take a step's choice, and see whether the row ends with it."""
        if self.finish is not None:  # it only waited for its last state
            return
        if choice.id < 0:
            self.error = EngineError(
                f"the model's logits were not finite after {len(self.ids)} new tokens; "
                "check the weights, the dtype, and the size of the deltas or rows that were fed in"
            )
            return
        stop = self.request.stop
        stopped = (choice.argmax if stop.by == "argmax" else choice.id) in stop.ids
        if not stopped or stop.keep:
            self.ids.append(choice.id)
            self._choices.append(choice)
        self.finish = "stop" if stopped else self._cut() or ("length" if len(self.ids) >= stop.max_new else None)
        self._show()

    def _cut(self) -> Finish | None:
        """Cut before the first token that overlaps a stop string."""
        stops = self.request.stop.texts
        if not stops:
            return None
        at = first_stop(self._text.text(self.ids), stops)
        if at is None:
            return None
        keep, _ = overlapping(self._text.spans(self.ids), (at, at + 1))
        del self.ids[keep:], self._choices[keep:]
        return "stop_text"

    def _show(self) -> None:
        if self.job.on_text is None:
            return
        text = self._text.text(self.ids)
        end = len(text) if self.finish is not None else self._settled()
        if end > self._shown:
            self.job.on_text(text[:end])
            self._shown = end

    def _settled(self) -> int:
        """How much of the text no later token takes back: a stop string takes the tokens that it overlaps."""
        text = self._text.settled(self.ids)
        held = held_back(text, self.request.stop.texts)
        if not held:
            return len(text)
        spans = self._text.spans(self.ids)
        first, _ = overlapping(spans, (len(text) - held, len(text)))
        return spans[first][0]

    def reply(self) -> Reply:
        """The finished row, its tensors on the CPU."""
        assert self.finish is not None, "only a finished row has a reply"
        n, record = len(self.ids), self.request.record
        return Reply(
            ids=tuple(self.ids),
            finish=self.finish,
            usage=Usage(self.request.length, n),
            rows={key: _stack([choice.rows[key] for choice in self._choices]) for key in self._row_keys()},
            states={layer: _stack(states[: n + 1]) for layer, states in self._states.items()},
            stats=_stats(self._choices, record.top) if record.stats else None,
            sparse=_sparse(self._choices, record.sparse) if record.sparse else None,
        )

    def _row_keys(self) -> list[str]:
        return list(self._choices[0].rows) if self._choices else []


def _stack(tensors: list[torch.Tensor]) -> torch.Tensor:
    return torch.stack(tensors).cpu()


def _stats(choices: list[Choice], top: int) -> Stats:
    if not choices:
        none = torch.zeros(0)
        return Stats(none, none, none, none, torch.zeros(0, top, dtype=torch.long), torch.zeros(0, top))
    numbers = _stack([choice.stats for choice in choices if choice.stats is not None])
    tops = [choice.top for choice in choices if choice.top is not None]
    logprob, entropy, varentropy, kurtosis = numbers.unbind(-1)
    top_ids, top_logprobs = _stack([ids for ids, _ in tops]), _stack([logp for _, logp in tops])
    return Stats(logprob, entropy, varentropy, kurtosis, top_ids[:, :top], top_logprobs[:, :top])


def _sparse(choices: list[Choice], size: int) -> Sparse | None:
    kept = [choice.sparse for choice in choices if choice.sparse is not None]
    if not kept:
        return None
    weights = _stack([weights for _, weights in kept])[:, :size]
    return Sparse(_stack([ids for ids, _ in kept])[:, :size], weights, weights.sum(-1))
