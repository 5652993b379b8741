"""Payloads of messages: tensors, and one JSON line that describes them.

On disk a payload is a safetensors file with one metadata key, which has canonical JSON (several keys would be written
in random order, and equal payloads would differ). Tensors by name:

    ids (n,), spans (n, 2)                      tokens as generated; character spans of the text
    logprob, entropy, varentropy, kurtosis (n,)  see models.sampling.statistics; natural logs
    top_ids, top_logprobs (n, k)                the most probable tokens at each position
    rows.<table key> (n, E)                     cipher: expected embeddings, one tensor for each receiver's table
    bridged.<table key>.<vocabularies> (n, E + 1)   cipher, shared vocabulary: unscaled means and their mass
    sparse.ids, sparse.weights (n, k), sparse.covered (n,)   cipher: the largest weights and their mass
    states (L, n, H)                            sde: differences; hidden: states; of the layers listed
    keys, values (l, heads, p, w), at (p,)      kv, thoughts: of the layers listed; positions of the keys' rotations
    first_keys, first_values (L - l, heads, 1, w)    the first position of all other layers
    masked (L, p)                               True for positions that a layer lacks; missing if there are none
    text (p,)                                   kv with bridges: True for texts and words, which a bridge maps; there
                                                keys are missing if all hearers are behind a bridge
    thought_ids (m,)                            thoughts: the tokens nearest to the latent steps, for readers only
    state (1, H)                                graft: the state that enters the layer listed

Rows and states may be compressed (`channels.compress`); a payload returns them decoded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError, deserialize

from sottovoce.channels import payload_check
from sottovoce.channels.compress import KEPT, is_carried, nbytes, placed, vectors
from sottovoce.core.errors import PayloadError, first_line
from sottovoce.core.validation import first_wrong, shown

if TYPE_CHECKING:  # torch takes seconds, and a discussion of hosted models needs none
    import torch

    from sottovoce.models import LoadedModel, Table

FORMAT = 1
DTYPES = {"I64": "<i8", "F32": "<f4"}
"""Types of spans and entropies in numpy's words, by those of safetensors."""
METADATA = "sottovoce"
Span = tuple[int, int]
"""A half-open range of characters of a text."""
GRAM = 4
"""Length in tokens of the pieces of a message that are compared: shorter ones repeat in any arithmetic."""
LAST = 64
"""Number of last pieces that are examined: a reply that starts to repeat itself does not stop."""
WINDOW = 16
"""Length in tokens of the windows; a shorter message shows no sign."""
REPEATED = 0.5
"""Share of pieces that occurred before. SmolLM2's sound replies stay below 0.32; most of its noise is above."""
SURPRISE = 5.0
"""Nats per token, like a choice of 150 tokens. SmolLM2's sound replies stay below 4.5, also at temperature 1."""


@dataclass(frozen=True)
class Label:
    """The description of a payload's tensors."""

    protocol: str
    text: str
    model: str
    weights: str
    """`LoadedModel.weights_key` of the speaker."""
    vocabulary: str
    """`LoadedModel.vocabulary_key` of the speaker."""
    layers: tuple[int, ...] = ()
    """Decoder layers (0-based) of what is carried, in their order."""
    format: int = FORMAT
    origin: str = ""
    """What keys, values or a state belong to, for readers: "the prompt"; empty for the words of the message."""


LABELS = TypeAdapter(Label)
LONGEST_HEADER = 10_000_000
"""Bytes; it has the message's text, and a line for each tensor, of which there are about twenty."""


@dataclass(frozen=True, eq=False)
class Payload:
    """The tensors of one message, on the CPU."""

    label: Label
    tensors: Mapping[str, torch.Tensor]

    def __len__(self) -> int:
        return len(self.tensors["ids"])

    @property
    def ids(self) -> tuple[int, ...]:
        """Token ids as generated (cipher: the nearest tokens)."""
        return tuple(self.tensors["ids"].tolist())

    @property
    def positions(self) -> int | None:
        """Number of positions with keys and values or a state in the payload; None if the positions are its tokens."""
        if "state" in self.tensors:
            return 1
        return len(self.tensors["at"]) if "at" in self.tensors else None

    @property
    def spans(self) -> list[Span]:
        """Half-open character spans of the text, one for each token."""
        return [(start, end) for start, end in self.tensors["spans"].tolist()]

    @property
    def states(self) -> torch.Tensor | None:
        """States (L, n, H), zero at tokens that are heard as words, or None if the payload has no states."""
        found = vectors(self.tensors, "states")
        return found if found is None else placed(found, self.tensors)

    def rows(self, table: str) -> torch.Tensor | None:
        """Return expected embeddings (n, E) in the space of the table with this key, zero at tokens heard as words."""
        found = vectors(self.tensors, f"rows.{table}")
        return found if found is None else placed(found, self.tensors)

    def rows_over(self, table: Table) -> torch.Tensor | None:
        """Return rows (n, E) in the space of a table, from the sparse distribution if the table was no receiver's."""
        rows = vectors(self.tensors, f"rows.{table.key}")
        if rows is None and "sparse.ids" in self.tensors:
            payload_check.check_tokens(self.tensors, len(table))  # `check_for` knows no other vocabulary
            import torch  # late, as below

            at = slice(None) if self.carrying is None else self.carrying
            weights, ids = self.tensors["sparse.weights"][at], self.tensors["sparse.ids"][at]
            # The kept weights, scaled to the mass 1 that they approximate.
            scaled = weights / weights.sum(-1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)
            rows = torch.einsum("nk,nke->ne", scaled.to(table.rows), table.rows[ids.to(table.rows.device)])
        if rows is None or self.carrying is None:
            return rows
        words = table.rows[self.tensors["ids"].to(table.rows.device)]
        return placed(rows, self.tensors, words)

    @property
    def carrying(self) -> torch.Tensor | None:
        """The places of tokens that carry rows or states if others are heard as words, or None if all carry them."""
        return self.tensors.get(KEPT)

    @property
    def carried_bytes(self) -> int:
        """Bytes of the stored tensors other than words and statistics."""
        return nbytes(self.tensors)

    def bytes_for(self, table: str) -> int:
        """Return the bytes that a model with this embedding table reads of them: not the rows of other tables."""
        of_tables = ("rows.", "bridged.")
        others = {name for name in self.tensors if name.startswith(of_tables) and name.split(".")[1] != table}
        read = {name: tensor for name, tensor in self.tensors.items() if name not in others}
        return nbytes(read) if nbytes({**read, KEPT: self.tensors["ids"][:0]}) else 0  # places alone carry nothing

    @property
    def carried_dtype(self) -> str | None:
        """The dtype of these tensors, or None if there are none."""
        stored = (tensor for name, tensor in self.tensors.items() if is_carried(name) and not name.endswith(".scale"))
        first = next(stored, None)
        return None if first is None else str(first.dtype).removeprefix("torch.")

    @property
    def carried(self) -> torch.Tensor | None:
        """The states, the keys, or the rows in one receiver's space, or None for nl."""
        for name in ("keys", "values", "state"):
            if (found := vectors(self.tensors, name)) is not None:
                return found
        tables = (name.split(".")[1] for name in self.tensors if name.startswith("rows."))
        return self.states if self.states is not None else next(map(self.rows, tables), None)

    def tokens(self, spans: Sequence[Span] = ()) -> list[int]:
        """Return the places of tokens that overlap character spans of the text, span by span; () is the whole text."""
        from sottovoce.models import overlapping  # late, as torch

        if not spans:
            return list(range(len(self)))
        return [i for span in spans for i in range(*overlapping(self.spans, span))]

    def to_bytes(self) -> bytes:
        """Return the safetensors file. Equal payloads give equal bytes. Refuse tensors that could not be read back."""
        import safetensors.torch  # late: it imports torch

        payload_check.check(self.tensors, self.label.layers, len(self.label.text))
        label = {name: value for name, value in asdict(self.label).items() if (name, value) != ("origin", "")}
        line = json.dumps(label, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        # safetensors refuses views and shared storage.
        tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in self.tensors.items()}
        return bytes(safetensors.torch.save(tensors, metadata={METADATA: line}))

    @classmethod
    def from_bytes(cls, data: bytes) -> Payload:
        """Read a payload from the bytes of its file.

        Raises:
            PayloadError: the file is truncated, is not a payload, or has a format that this version cannot read.
        """
        import safetensors.torch  # late: it imports torch

        try:
            size = int.from_bytes(data[:8], "little")
            if len(data) > size > LONGEST_HEADER:
                raise PayloadError(f"payload has a header of {size:,} bytes; expected {LONGEST_HEADER:,} at most")
            line = json.loads(data[8 : 8 + size])["__metadata__"][METADATA]
            if (found := json.loads(line)["format"]) != FORMAT:
                raise PayloadError(f"payload has format {shown(found)}; this version reads {FORMAT}; run again")
            payload = cls(LABELS.validate_json(line, strict=True, extra="forbid"), safetensors.torch.load(data))
            payload_check.check(payload.tensors, payload.label.layers, len(payload.label.text))
            return payload
        except (ValueError, KeyError, TypeError, RecursionError, MemoryError, SafetensorError) as error:
            why = first_wrong(error, "its label") if isinstance(error, ValidationError) else first_line(error)
            raise PayloadError(f"not a payload file ({len(data)} bytes): {why}; expected safetensors") from error

    def check_for(self, loaded: LoadedModel) -> None:
        """Check that the tensors fit the model that reads them. Errors: see `payload_check.check_for`."""
        same, shared = self.label.weights == loaded.weights_key, self.label.vocabulary == loaded.vocabulary_key
        payload_check.check_for(self.tensors, self.label.layers, loaded=loaded, same=same, shared=shared)


def entropies(data: bytes) -> list[tuple[Span, float]]:
    """Return the character span and the entropy (nats) of each token of a payload's file, or [] if none was stored.

    Unlike `from_bytes` it loads no torch, which takes seconds.

    Raises:
        PayloadError: the bytes are not a payload file.
    """
    try:
        tensors = dict(deserialize(data))  # type: ignore[no-untyped-call]
        if "entropy" not in tensors:
            return []
        import numpy as np  # late: a command's help does not need it

        found = (tensors["spans"], tensors["entropy"])
        spans, values = (np.frombuffer(each["data"], DTYPES[each["dtype"]]) for each in found)
        pairs = map(tuple, spans.reshape(-1, 2).tolist())
        return list(zip(pairs, values.tolist(), strict=True))
    except (ValueError, KeyError, SafetensorError) as error:
        raise PayloadError(f"not a payload file ({len(data)} bytes): {error}; expected safetensors") from error


def degeneration(payload: Payload) -> tuple[str, ...]:
    """Describe the signs that a message is no longer language: it repeats itself, or it is unlikely.

    A log-probability below the negative entropy is not a sign. The nearest token of a mean is close to the most likely
    one, so the log-probabilities of CIPHER's noise are above it, like those of greedy words.
    """
    found = {
        "repeats itself": repeated(payload.ids) >= REPEATED,
        "unlikely under the model": surprise(payload) >= SURPRISE,
    }
    return tuple(f"degenerates: {sign}" for sign, is_found in found.items() if is_found)


def repeated(ids: Sequence[int]) -> float:
    """Return the share of the last pieces of 4 tokens that occurred before in the message, or 0 below 16 tokens."""
    if len(ids) < WINDOW:
        return 0.0
    grams = [tuple(ids[at : at + GRAM]) for at in range(len(ids) - GRAM + 1)]
    first = {gram: at for at, gram in reversed(list(enumerate(grams)))}
    again = [first[gram] < at for at, gram in enumerate(grams)][-LAST:]
    return sum(again) / len(again)


def surprise(payload: Payload) -> float:
    """Return the largest mean over 16 consecutive tokens, in nats per token, or 0 below 16 tokens.

    The tokens' surprise and their entropy each have such means, and the largest of all counts: a mean embedding carries
    the whole distribution, even if the token that represents it is likely.
    """
    if len(payload) < WINDOW:
        return 0.0
    return max(_highest(payload.tensors["entropy"]), _highest(-payload.tensors["logprob"]))


def _highest(nats: torch.Tensor) -> float:
    return float(nats.unfold(0, WINDOW, 1).mean(-1).max())
