"""The engine's requests and replies: values without protocol, agent or chat.

The key of a position, for the prefix cache, is its token id, or the digest of its embedding row, with the digests of
the edits that act on it. Keys depend on contents, not names: two different prompts never match.

Axes in this folder: b sequences of a batch, n tokens, V vocabulary, E embedding width, H hidden width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate
from typing import ClassVar, Literal

import torch
from torch.nn.functional import pad

from sottovoce.core.response_format import Form
from sottovoce.models.huggingface.embedding_table import Table, tensor_digest

DIGEST = 16  # bytes
Weigh = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""(raw logits (b, V), probabilities at the request's temperature (b, V)) -> averaging weights (b, V).

A probability may be exactly 0."""


@dataclass(frozen=True)
class Ids:
    """A piece of a prompt as token ids."""

    ids: tuple[int, ...]
    origin: Literal["prompt", "text", "block"] = "prompt"
    """`text` for the text of a turn, where the template's tokens stand apart from it; `block` for the block of thoughts
    that the model wrote before this reply."""

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, eq=False)
class Rows:
    """A piece of a prompt as embedding rows (n, E)."""

    rows: torch.Tensor
    origin: ClassVar[Origin] = "prompt"

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, eq=False)
class Cached:
    """A piece of a prompt as keys and values that another sequence computed: it is pasted, not read.

    `keys` and `values` (l, heads, n, width) belong to `layers`, ascending. The other layers have only the first
    position, `first_keys` and `first_values` (L - l, heads, 1, width), or none, and see nothing of the others.
    """

    keys: torch.Tensor
    values: torch.Tensor
    layers: tuple[int, ...]
    at: torch.Tensor
    """The positions (n,) for which the keys are rotated."""
    first_keys: torch.Tensor
    first_values: torch.Tensor
    turned: bool = True
    """Rotate the keys on to the positions where the piece stands; otherwise they keep their own rotations."""
    masked: torch.Tensor | None = None
    """True for positions (L, n) that a layer lacks, which are zeros in `keys` and `values`; None if there are none."""
    causal: bool = True
    """False if layers that do not have all positions read the rest of the prompt under the left part of the mask of
    those that have them (KVComm's published code): a query sees as many positions after it as the layer lacks."""
    origin: ClassVar[Origin] = "received"

    def __len__(self) -> int:
        return len(self.at)

    @cached_property
    def digest(self) -> bytes:
        """A digest of everything that affects the reading of later positions."""
        tensors = tensor_digest(self.keys, self.values, self.at, self.first_keys, self.first_values)
        rest = f"{self.layers} {self.turned} {self.gaps} {self.causal}"
        return blake2b(f"{tensors} {rest}".encode(), digest_size=DIGEST).digest()

    @property
    def others(self) -> tuple[int, ...]:
        """The layers that have only the first position, or none."""
        return tuple(each for each in range(len(self.layers) + len(self.first_keys)) if each not in self.layers)

    @cached_property
    def gaps(self) -> Mapping[int, tuple[tuple[int, int], ...]]:
        """Ranges of positions that layers lack, for those that do not have all."""
        masked = torch.zeros(len(self.layers) + len(self.first_keys), len(self), dtype=torch.bool)
        if self.masked is not None:
            masked |= self.masked
        masked[self.others, self.first_keys.shape[2] :] = True
        changes = pad(masked.int(), (1, 1)).diff()  # 1 where a range starts, -1 where it ends
        pairs = (zip(*((row == change).nonzero()[:, 0].tolist() for change in (1, -1)), strict=True) for row in changes)
        return {layer: ranges for layer, each in enumerate(pairs) if (ranges := tuple(each))}

    def without_first(self) -> Cached:
        """Return the piece with nothing in the other layers, instead of their first position."""
        return replace(self, first_keys=self.first_keys[:, :, :0], first_values=self.first_values[:, :, :0])


Piece = Ids | Rows | Cached
LAST = -(1 << 30)
"""In place of a position: the last one of a prompt. A protocol's `Prompt` knows it, an engine does not."""
How = Literal["add", "replace", "mean"]
Finish = Literal["stop", "stop_text", "length"]


@dataclass(frozen=True, eq=False)
class Edit:
    """A change of the output of decoder layer `layer` (0-based) by `delta` (n, w) at prompt positions at .. at+n.

    A change other than an addition may have w < H, and then acts on the last w coordinates.
    """

    layer: int
    at: int
    delta: torch.Tensor
    how: How = "add"
    """`delta` is added to the states, replaces them, or is averaged with them."""


@dataclass(frozen=True)
class Sampling:
    """Settings for drawing a token. Temperature 0 is greedy; top_k 0 and top_p 1 keep the whole vocabulary."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    repetition_penalty: float = 1.0
    """Applied to tokens only; a mean of embeddings uses no logits processor but the temperature."""
    seed: int = 0


@dataclass(frozen=True)
class Feed:
    """The way in which the next input is made from the logits."""

    kind: Literal["token", "mean"] = "token"
    """The drawn token, or the mean embedding of the distribution."""
    weigh: Weigh | None = None
    """Averaging weights other than the probabilities at the temperature, for partial variants.

    One call weighs all requests that share the function; after an error in a batch each is weighed again, alone.
    """
    tables: tuple[Table, ...] = ()
    """Tables of other models over the same vocabulary, averaged with the same weights."""


@dataclass(frozen=True, eq=False)
class Thinking:
    """Latent steps before the words of a reply (LatentMAS, arXiv 2511.20639, section 3).

    The state h (H,) after the final norm at the last position, times `matrix` and scaled to the length `norm`, is the
    next input; no token is chosen.
    """

    steps: int
    norm: float
    matrix: torch.Tensor | None = None
    """From states to input embeddings, (H, E); None is the identity."""


Origin = Literal["received", "prompt", "text", "block", "thoughts", "words"]
"""Where a position of a sequence comes from: a cached piece, the rest of its prompt, the text of a turn in it (where
it stands apart from the template), a block of thoughts in words, a latent step, its reply."""


@dataclass(frozen=True)
class Record:
    """The parts of a pass to record besides the reply's ids."""

    layers: tuple[int, ...] = ()
    """Decoder layers (0-based) whose output is recorded at the last prompt position and every new token."""
    final_norm: bool = False
    """Record the last layer's state after the final norm instead of before it."""
    stats: bool = False
    top: int = 0
    """With `stats`: number of most probable tokens to record per position."""
    sparse: int = 0
    """With a mean feed: number of largest averaging weights to record per position."""
    cache: tuple[Origin, ...] = ()
    """Record the keys and values of positions of these origins."""
    keys: bool = True
    """With `cache`: record the keys, too, not the values alone."""


@dataclass(frozen=True)
class Stop:
    """The conditions that end a reply."""

    max_new: int
    """0 for a reply without words, of which something is recorded."""
    ids: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()
    """Strings in the decoded text; the reply is cut before the first token that overlaps one."""
    by: Literal["token", "nearest", "argmax"] = "token"
    """The token compared with `ids`: the fed token, or for a mean its nearest token or the argmax of the logits."""
    keep: bool = False
    """Keep the position that met a stop id."""
    special: bool = False
    """Decode special tokens into the text that stop strings and streaming see."""


@dataclass(frozen=True)
class Request:
    """One sequence of a batch: its prompt, decoding settings and records."""

    prompt: tuple[Piece, ...]
    stop: Stop
    edits: tuple[Edit, ...] = ()
    feed: Feed = Feed()
    sampling: Sampling = Sampling()
    record: Record = Record()
    form: Form | None = None
    """The response format. With a mean feed, it is fed as tokens, except for means in the middle of a text."""
    thinking: Thinking | None = None
    banned: tuple[int, ...] = ()
    """Tokens that the reply cannot have: their probability is 0, under a mean feed too."""

    @cached_property
    def length(self) -> int:
        """Positions of the prompt."""
        return sum(map(len, self.prompt))

    @property
    def steps(self) -> int:
        """Number of latent steps."""
        return self.thinking.steps if self.thinking else 0

    @property
    def longest(self) -> int:
        """Positions of the prompt, the latent steps, and the longest reply."""
        return self.length + self.steps + self.stop.max_new

    @cached_property
    def ids(self) -> tuple[int, ...]:
        """The token ids of the prompt, without its latent pieces."""
        return tuple(id for piece in self.prompt if isinstance(piece, Ids) for id in piece.ids)

    @cached_property
    def inputs(self) -> tuple[int, ...]:
        """A prompt without rows as one id for each position, which is 0 where keys and values are pasted."""
        return tuple(id for each in self.prompt for id in (each.ids if isinstance(each, Ids) else (0,) * len(each)))

    @cached_property
    def cached(self) -> list[tuple[int, Cached]]:
        """The cached pieces of the prompt, each with its first position."""
        starts = accumulate(map(len, self.prompt), initial=0)
        placed = zip(starts, self.prompt, strict=False)
        return [(start, piece) for start, piece in placed if isinstance(piece, Cached) and len(piece)]

    @cached_property
    def hidden(self) -> Mapping[int, tuple[tuple[int, int], ...]]:
        """Ranges of columns that a layer must not see, by layer."""
        found: dict[int, tuple[tuple[int, int], ...]] = {}
        for start, piece in self.cached:
            for layer, ranges in piece.gaps.items():
                found[layer] = (*found.get(layer, ()), *((start + a, start + b) for a, b in ranges))
        return found

    @cached_property
    def sight(self) -> Mapping[int, int]:
        """The number of later positions of the prompt that each position sees, by layer; 0 if a layer is not named."""
        found: dict[int, int] = {}
        for _, piece in self.cached:
            if not piece.causal:
                for layer, ranges in piece.gaps.items():
                    found[layer] = found.get(layer, 0) + sum(b - a for a, b in ranges)
        return found

    @cached_property
    def to_read(self) -> Sequence[int]:
        """The positions of the prompt that are in no cached piece."""
        ends = [0, *(start + len(piece) for start, piece in self.cached)]
        starts = [*(start for start, _ in self.cached), self.length]
        gaps = [range(*gap) for gap in zip(ends, starts, strict=True)]
        return gaps[0] if len(gaps) == 1 else [at for gap in gaps for at in gap]


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


@dataclass(frozen=True, eq=False)
class KeysValues:
    """Keys and values (L, heads, n, width) of some positions of a sequence, and these positions (n,), on the CPU.

    Without `Record.keys`, `keys` has no positions.
    """

    keys: torch.Tensor
    values: torch.Tensor
    at: torch.Tensor
    origins: tuple[Origin, ...] = ()
    """The origins of which there are positions."""
    masked: torch.Tensor | None = None
    """True for positions (L, n) that a layer lacks, as in `Cached`."""
    text: torch.Tensor | None = None
    """Token ids (n,) of texts and words; -1 for the template's own and received positions."""

    @property
    def has_keys(self) -> bool:
        """True if the keys were recorded, too."""
        return self.keys.shape[2] == len(self.at)


@dataclass(frozen=True)
class Usage:
    """The number of positions read and of tokens generated."""

    prompt: int
    new: int
    reused: int = 0
    """Prompt positions that another request had read: found in the prefix cache, or handed over."""


@dataclass(frozen=True, eq=False)
class Reply:
    """The result of a request."""

    ids: tuple[int, ...]
    """The reply's tokens; for a mean feed the nearest token of each mean (the token itself if one-hot)."""
    finish: Finish
    usage: Usage
    complete: bool = False
    """True if the reply's format is complete, also where it was written because few tokens were left."""
    rows: dict[str, torch.Tensor] = field(default_factory=dict)
    """The mean embeddings (n, E) of a mean feed, by table key."""
    states: dict[int, torch.Tensor] = field(default_factory=dict)
    """The states (n + 1, H) by layer; row 0 is at the last prompt position."""
    stats: Stats | None = None
    sparse: Sparse | None = None
    cache: KeysValues | None = None
    thoughts: torch.Tensor | None = None
    """The inputs (m, E) of the latent steps; None if there were none."""


def position_keys(request: Request, dtype: torch.dtype) -> list[bytes]:
    """Return one key for each position of the prompt; rows are first cast to `dtype`, the model's own."""
    keys: list[bytes] = []
    for piece in request.prompt:
        if isinstance(piece, Cached):
            keys += [b"k" + piece.digest + i.to_bytes(4, "big") for i in range(len(piece))]
        else:
            keys += id_keys(piece.ids) if isinstance(piece, Ids) else row_keys(piece.rows.to(dtype))
    for edit in request.edits:
        what = (b"e" if edit.how == "add" else edit.how.encode()) + edit.layer.to_bytes(2, "big")
        for at, digest in enumerate(row_digests(edit.delta), edit.at):
            keys[at] += what + digest
    if request.sight:  # what is read depends on all that follows
        whole = blake2b(b"".join(keys), digest_size=DIGEST).digest()
        keys = [key + whole for key in keys]
    return keys


def id_keys(ids: Sequence[int]) -> list[bytes]:
    """Return the keys of positions that were read as token ids."""
    return [b"i" + id.to_bytes(4, "big") for id in ids]


def row_keys(rows: torch.Tensor) -> list[bytes]:
    """Return the keys of positions that were read as embedding rows (n, E)."""
    return [b"r" + digest for digest in row_digests(rows)]


def row_digests(rows: torch.Tensor) -> list[bytes]:
    """Return a digest of 128 bits for each row (n, w)."""
    words = rows.detach().cpu().contiguous().view(torch.int16).numpy()  # numpy has no bfloat16
    return [blake2b(row.tobytes(), digest_size=DIGEST).digest() for row in words]
