"""What the engine is asked, what it answers and what it did so far: values without protocol, agent or chat.

Axes in this folder: b sequences of a batch, n tokens, V vocabulary, E embedding width, H hidden width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import torch

from sottovoce.form import Form
from sottovoce.models.huggingface.table import Table

Weigh = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""(raw logits (b, V), probabilities at the request's temperature (b, V)) -> averaging weights (b, V)."""


@dataclass(frozen=True)
class Ids:
    """A piece of a prompt as token ids."""

    ids: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, eq=False)
class Rows:
    """A piece of a prompt as embedding rows (n, E)."""

    rows: torch.Tensor

    def __len__(self) -> int:
        return len(self.rows)


Piece = Ids | Rows


@dataclass(frozen=True, eq=False)
class Edit:
    """Add `delta` (n, H) to the output of decoder layer `layer` (0-based) at prompt positions at .. at+n."""

    layer: int
    at: int
    delta: torch.Tensor


@dataclass(frozen=True)
class Sampling:
    """How a token is drawn. Temperature 0 is greedy; top_k 0 and top_p 1 keep the whole vocabulary."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    repetition_penalty: float = 1.0
    """Applied to tokens only; a mean of embeddings uses no logits processor but the temperature."""
    seed: int = 0


@dataclass(frozen=True)
class Feed:
    """How the next input is made from the logits."""

    kind: Literal["token", "mean"] = "token"
    """The drawn token, or the mean embedding under the distribution."""
    weigh: Weigh | None = None
    """Partial variants: other averaging weights than the probabilities at the temperature.

    Requests that share it are weighed in one call; after an error in a batch each is weighed again, alone.
    """
    tables: tuple[Table, ...] = ()
    """Tables of other models over the same vocabulary, averaged under the same weights."""


@dataclass(frozen=True)
class Record:
    """What to keep of a reply besides its ids."""

    layers: tuple[int, ...] = ()
    """Decoder layers (0-based) whose output is kept at the last prompt position and every new token."""
    final_norm: bool = False
    """Keep the last layer's state after the final norm instead of before it."""
    stats: bool = False
    top: int = 0
    """With `stats`: how many of the most probable tokens to keep per position."""
    sparse: int = 0
    """With a mean feed: how many of the largest averaging weights to keep per position."""


@dataclass(frozen=True)
class Stop:
    """When a reply ends."""

    max_new: int
    ids: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()
    """Strings in the decoded text; the reply is cut before the first token that overlaps one."""
    by: Literal["token", "nearest", "argmax"] = "token"
    """What is compared with `ids`: the fed token, or for a mean its nearest token or the argmax of the logits."""
    keep: bool = False
    """Keep the position that met a stop id."""
    special: bool = False
    """Decode special tokens into the text that stop strings and streaming see."""


@dataclass(frozen=True)
class Request:
    """What one sequence of a batch reads, how it goes on, and what is kept of it."""

    prompt: tuple[Piece, ...]
    stop: Stop
    edits: tuple[Edit, ...] = ()
    feed: Feed = Feed()
    sampling: Sampling = Sampling()
    record: Record = Record()
    form: Form | None = None
    """What the reply is kept to. Under a mean feed it is fed as tokens, but for means in the middle of a text."""

    @property
    def length(self) -> int:
        """Positions of the prompt."""
        return sum(len(piece) for piece in self.prompt)


@dataclass(frozen=True, eq=False)
class Stats:
    """Per-token numbers from the raw logits at temperature 1, before penalties and truncation.

    logprob, entropy (nats), varentropy (nats^2), kurtosis (p-weighted, not excess; 0 where the
    varentropy is 0): (n,) float32. top_ids (n, k) int64 and top_logprobs (n, k) float32.
    """

    logprob: torch.Tensor
    entropy: torch.Tensor
    varentropy: torch.Tensor
    kurtosis: torch.Tensor
    top_ids: torch.Tensor
    top_logprobs: torch.Tensor


@dataclass(frozen=True, eq=False)
class Sparse:
    """The largest averaging weights per position: ids and weights (n, k), and the mass they cover (n,)."""

    ids: torch.Tensor
    weights: torch.Tensor
    covered: torch.Tensor


@dataclass(frozen=True)
class Usage:
    """Positions read and tokens made."""

    prompt: int
    new: int
    reused: int = 0
    """Positions of the prompt that an earlier request had read."""


@dataclass(frozen=True, eq=False)
class Reply:
    """What came of a request."""

    ids: tuple[int, ...]
    """Kept tokens; for a mean feed the nearest token of each mean (the token itself where one-hot)."""
    finish: Literal["stop", "stop_text", "length"]
    usage: Usage
    rows: dict[str, torch.Tensor] = field(default_factory=dict)
    """By table key: the mean embeddings (n, E) of a mean feed."""
    states: dict[int, torch.Tensor] = field(default_factory=dict)
    """By layer: (n + 1, H), row 0 at the last prompt position."""
    stats: Stats | None = None
    sparse: Sparse | None = None


@dataclass
class Statistics:
    """Counts since the engine began; its own thread writes them."""

    requests: int = 0
    """That left: finished, failed or cancelled."""
    running: int = 0
    """Sequences that hold a slot, now."""
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
