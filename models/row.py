"""The progress of one row of a batch: what it read and kept, when it stops, and the reply it becomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import torch

from sottovoce.errors import EngineError, SottovoceError
from sottovoce.models.keys import id_keys, row_keys
from sottovoce.models.recorder import Recorder
from sottovoce.models.request import Ids, Reply, Request, Usage
from sottovoce.models.sampling import Uniforms
from sottovoce.models.text import Detokenizer, Growing, first_stop, held_back, overlapping, settled

Finish = Literal["stop", "stop_text", "length"]


@dataclass(frozen=True, eq=False)
class Job:
    """A request on its way through the engine."""

    request: Request
    done: Callable[[Row], None]
    """Gets the row when it left: finished, failed or cancelled."""
    keys: Sequence[bytes] = ()
    """Of the prompt's positions, for the prefix cache."""
    blocks: Sequence[bytes] = ()
    """Digests of the prompt's blocks before its last position, which is always read anew."""
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
    logits: torch.Tensor
    """(V,), a view of the step's."""
    weights: torch.Tensor | None = None
    """(V,) averaging weights of a mean."""
    rows: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """By table key, the mean (E,)."""


class Row:
    """One request while it reads its prompt and decodes."""

    def __init__(self, job: Job, detokenizers: Mapping[bool, Detokenizer], last_layer: int) -> None:
        """Start empty."""
        self.job, self.request, self.length = job, job.request, job.request.length
        self.filled = self.reused = 0
        """Columns of the slot in use, and how many of the prompt's came from the prefix cache."""
        self.mixed = False
        """True where it was read by a model that changed meanwhile."""
        self.ids: list[int] = []
        self._chosen = -1
        self._fed: list[int] = []
        """The tokens read after the prompt; for a mean the nearest ones."""
        stop = self.request.stop
        self._uniforms = Uniforms(self.request.sampling.seed)
        self.finish: Finish | None = None
        self.error: SottovoceError | None = None
        self._spans = detokenizers[stop.special].spans
        self._text = Growing(detokenizers[stop.special])
        self._shown = 0
        record = self.request.record
        self._recorder = Recorder(record, stop.max_new + 1, last_layer if record.final_norm else None)

    @cached_property
    def prompt_ids(self) -> tuple[int, ...]:
        """The token ids of the prompt, without its latent pieces."""
        return tuple(id for piece in self.request.prompt if isinstance(piece, Ids) for id in piece.ids)

    @property
    def left(self) -> bool:
        """True once the row needs no further forward pass."""
        if self.error or self.job.cancelled():
            return True
        return self.finish is not None and not self._lacks_state

    @property
    def _lacks_state(self) -> bool:
        return bool(self.request.record.layers) and self._recorder.n < len(self.ids) + 1

    @property
    def u(self) -> float:
        """The uniform number that the next token is drawn by."""
        return self._uniforms.at(len(self.ids))

    def read(self) -> None:
        """Note that what was chosen was read after the prompt."""
        self.filled += 1
        self._fed.append(self._chosen)

    def keys(self, own_table: str) -> list[bytes]:
        """Of all the positions read so far."""
        if self.request.feed.kind == "token":
            return [*self.job.keys, *id_keys(self._fed)]
        means = self._recorder.means(len(self._fed))  # each is kept before it is read
        return [*self.job.keys, *(row_keys(means[own_table]) if means else ())]

    def see(self, i: int, states: Mapping[int, torch.Tensor]) -> None:
        """Keep the states of a forward pass, by layer and row; the row stands at index i of the batch."""
        if self.finish is None or self._lacks_state:
            self._recorder.see(i, states)

    def keep(self, choice: Choice) -> None:
        """Take a step's choice, and see whether the row ends with it."""
        if choice.id < 0:
            self.finish, self.error = (
                None,
                EngineError(
                    f"the model's logits were not finite after {len(self.ids)} new tokens; "
                    "check the weights, the dtype, and the size of the deltas or rows that were fed in"
                ),
            )
            return
        if self.finish is not None:  # it only waited for its last state
            return
        self._chosen = choice.id
        stop = self.request.stop
        stopped = (choice.argmax if stop.by == "argmax" else choice.id) in stop.ids
        if not stopped or stop.keep:
            self.ids.append(choice.id)
            self._recorder.keep(choice.id, choice.logits, choice.weights, choice.rows)
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
        keep, _ = overlapping(self._spans(self.ids), (at, at + 1))
        del self.ids[keep:]
        return "stop_text"

    def _show(self) -> None:
        if self.job.on_text is None:
            return
        text = self._text.text(self.ids)
        end = len(text) if self.finish is not None else self._settled(text)
        if end > self._shown:
            self.job.on_text(text[:end])
            self._shown = end

    def _settled(self, text: str) -> int:
        """How much of the text no later token takes back: a stop string takes the tokens that it overlaps."""
        text = settled(text)
        held = held_back(text, self.request.stop.texts)
        if not held:
            return len(text)
        spans = self._spans(self.ids)
        first, _ = overlapping(spans, (len(text) - held, len(text)))
        return spans[first][0]

    def reply(self) -> Reply:
        """The finished row, its tensors on the CPU."""
        assert self.finish is not None, "only a finished row has a reply"
        n, kept = len(self.ids), self._recorder
        return Reply(
            ids=tuple(self.ids),
            finish=self.finish,
            usage=Usage(self.length, n, self.reused),
            rows={key: means.cpu() for key, means in kept.means(n).items()},
            states=kept.states(n + 1),
            stats=kept.stats(n),
            sparse=kept.sparse(n),
        )
