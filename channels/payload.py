"""What lies under a message: tensors, and one JSON line that says what they are.

On disk a payload is a safetensors file whose only metadata key holds canonical JSON (several keys
would be written in random order, and equal payloads would differ). Tensors by name:

    ids (n,), spans (n, 2)                      tokens as generated; character spans of the text
    logprob, entropy, varentropy, kurtosis (n,)  see models.sampling.statistics; natural logs
    top_ids, top_logprobs (n, k)                the most probable tokens at each position
    rows.<table key> (n, E)                     cipher: expected embeddings, one tensor a receiver's table
    sparse.ids, sparse.weights (n, k), sparse.covered (n,)   cipher: the largest weights and their mass
    states (L, n, H)                            sde: differences; hidden: states; of the layers listed
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import safetensors.torch
import torch
from safetensors import SafetensorError

from sottovoce.channels.message import PayloadRef, text_digest
from sottovoce.errors import PayloadError
from sottovoce.models import Span, overlapping

FORMAT = 1
METADATA = "sottovoce"


@dataclass(frozen=True)
class Label:
    """What the tensors of a payload are."""

    protocol: str
    text: str
    model: str
    weights: str
    """`LoadedModel.weights_key` of the speaker."""
    vocabulary: str
    """`LoadedModel.vocabulary_key` of the speaker."""
    layers: tuple[int, ...] = ()
    """Decoder layers (0-based) of `states`, in its order."""
    format: int = FORMAT


@dataclass(frozen=True, eq=False)
class Payload:
    """The tensors of one message, on the CPU."""

    label: Label
    tensors: Mapping[str, torch.Tensor]

    def __len__(self) -> int:
        return len(self.tensors["ids"])

    @property
    def ids(self) -> tuple[int, ...]:
        """Token ids as they were generated (cipher: the nearest tokens)."""
        return tuple(self.tensors["ids"].tolist())

    @property
    def spans(self) -> list[Span]:
        """Half-open character spans of the text, one a token."""
        return [(start, end) for start, end in self.tensors["spans"].tolist()]

    @property
    def states(self) -> torch.Tensor | None:
        """(L, n, H), or None where the payload carries no states."""
        return self.tensors.get("states")

    def rows(self, table: str) -> torch.Tensor | None:
        """Expected embeddings (n, E) in the space of the table with this key."""
        return self.tensors.get(f"rows.{table}")

    def tokens(self, span: Span | None) -> slice:
        """The tokens of a character span of the text: every one that overlaps it."""
        return slice(None) if span is None else slice(*overlapping(self.spans, span))

    def to_bytes(self) -> bytes:
        """The safetensors file; equal payloads give equal bytes."""
        line = json.dumps(asdict(self.label), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        # safetensors refuses views and shared storage.
        tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in self.tensors.items()}
        return bytes(safetensors.torch.save(tensors, metadata={METADATA: line}))

    @classmethod
    def from_bytes(cls, data: bytes) -> Payload:
        """Read what `to_bytes` wrote.

        Raises:
            PayloadError: the file is cut, is no payload, or has a format that this version cannot read.
        """
        try:
            size = int.from_bytes(data[:8], "little")
            label = json.loads(json.loads(data[8 : 8 + size])["__metadata__"][METADATA])
            if label["format"] != FORMAT:
                raise PayloadError(f"payload has format {label['format']!r}; this version reads format {FORMAT}")
            return cls(Label(**{**label, "layers": tuple(label["layers"])}), safetensors.torch.load(data))
        except (ValueError, KeyError, TypeError, SafetensorError) as error:
            raise PayloadError(f"not a payload file ({len(data)} bytes): {error}; expected safetensors") from error

    def reference(self, data: bytes) -> PayloadRef:
        """The content address of this payload, whose file is `data`."""
        carried = self.states if self.states is not None else next(iter(self._rows()), None)
        return PayloadRef(
            protocol=self.label.protocol,
            sha256=hashlib.sha256(data).hexdigest(),
            text_sha256=text_digest(self.label.text),
            tokens=len(self),
            nbytes=len(data),
            hidden=None if carried is None else int(carried.shape[-1]),
            dtype=None if carried is None else str(carried.dtype).removeprefix("torch."),
            layers=self.label.layers,
        )

    def _rows(self) -> list[torch.Tensor]:
        return [tensor for name, tensor in self.tensors.items() if name.startswith("rows.")]
