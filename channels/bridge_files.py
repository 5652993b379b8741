"""The folder of a bridge: its tensors, and a label that says between which models it leads and what it carried.

`bridge.safetensors` has, with F features and O = the numbers of a receiver's position (2 x layers x heads x width):

    mean, scale (F,)                            standardize the features, which are then cut
    weight (F, O), bias (O,)                    the map; keys first, then values, each by layer, head, width
    head_keys, head_values (L, heads, h, w)     the receiver's own beginning of a user's turn, at positions 0 .. h - 1

Nothing in it is executed; sizes are checked before anything is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError

from sottovoce.core.errors import UsageError, first_line
from sottovoce.core.files import bytes_of, opened, text_of, write
from sottovoce.core.text import one_line
from sottovoce.core.validation import first_wrong, shown

if TYPE_CHECKING:  # lists of bridges need no torch, which takes seconds
    import torch

    from sottovoce.models import LoadedModel

FORMAT = 2
PIECES = 4  # tokens of the receiver within one of the sender that are told apart
LABEL, TENSORS = "bridge.json", "bridge.safetensors"
LONGEST = 100_000  # characters of a label
LARGEST = 8 << 30  # bytes of tensors
SIZES = {"F32": 4, "BF16": 2}  # bytes of a number


@dataclass(frozen=True)
class Side:
    """A model at one end of a bridge."""

    name: str
    weights: str
    """`LoadedModel.weights_key`."""
    vocabulary: str
    """`LoadedModel.vocabulary_key`."""
    layers: int
    heads: int
    width: int
    embedding: int
    """The numbers of an input embedding."""

    @classmethod
    def of(cls, loaded: LoadedModel) -> Side:
        """Describe a loaded model. Raises a ModelError if its keys and values cannot be handed over."""
        loaded.network.check_handing_over()
        heads, width = loaded.network.cache_shape
        name = Path(loaded.name).name if Path(loaded.name).exists() else loaded.name
        shape = loaded.layers, heads, width, loaded.table.width
        return cls(name, loaded.weights_key, loaded.vocabulary_key, *shape)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Layers, heads and width of keys and values."""
        return self.layers, self.heads, self.width

    @property
    def numbers(self) -> int:
        """The values of one position, in all layers."""
        return self.layers * self.heads * self.width


@dataclass(frozen=True)
class Carried:
    """Right answers of a test: through the bridge, and three bounds."""

    questions: int
    bridge: int
    own: int
    """With the receiver's own keys and values of the same text."""
    shuffled: int
    """Through the bridge, with another question's text."""
    nothing: int


@dataclass(frozen=True)
class Label:
    """The description of a bridge."""

    sender: Side
    receiver: Side
    digest: str
    """sha256 of the tensors' file."""
    texts: str
    """sha256 of all texts that were read."""
    tokens: int
    """Tokens of the receiver that were read."""
    seed: int
    steps: int
    """Steps of refinement that were made."""
    planned: int
    head: int
    """Positions of the receiver's own beginning."""
    carried: Carried | None = None
    """None if the fit was stopped."""
    format: int = FORMAT

    def shapes(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Return the shape and the dtype of each tensor, in safetensors' words."""
        side, out = self.receiver, 2 * self.receiver.numbers
        wide = self.sender.numbers + 2 * self.sender.embedding + PIECES
        head = (side.layers, side.heads, self.head, side.width)
        return {
            **{name: ((wide,), "F32") for name in ("mean", "scale")},
            **{"weight": ((wide, out), "BF16"), "bias": ((out,), "F32")},
            **{name: (head, "F32") for name in ("head_keys", "head_values")},
        }

    @property
    def nbytes(self) -> int:
        """Bytes of the tensors."""
        return sum(prod(shape) * SIZES[dtype] for shape, dtype in self.shapes().values())

    @property
    def about(self) -> str:
        """One line for readers."""
        untested = "" if self.carried else ", not tested"
        return one_line(f"{self.sender.name} to {self.receiver.name}, {self.digest[:12]}{untested}")


LABELS = TypeAdapter(Label)


def save_bridge(folder: Path, label: Label, tensors: Mapping[str, torch.Tensor]) -> Label:
    """Write a bridge, the tensors before the label, and return the label with their digest."""
    import safetensors.torch

    data = safetensors.torch.save({name: tensor.detach().contiguous().clone() for name, tensor in tensors.items()})
    named = Label(**{**vars(label), "digest": hashlib.sha256(data).hexdigest()})
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / TENSORS, data)
    write(folder / LABEL, json.dumps(asdict(named), indent=2) + "\n")
    return named


def check_size(label: Label) -> None:
    """Refuse a bridge with more bytes than are read."""
    if label.nbytes > LARGEST:
        raise UsageError(
            f"a bridge from {label.sender.name!r} to {label.receiver.name!r} has {label.nbytes:,} bytes; at most "
            f"{LARGEST:,} are read; choose smaller models"
        )


def read_label(folder: str | Path) -> Label:
    """Return the label of a bridge's folder.

    Raises:
        UsageError: the folder is no bridge, or of another format.
    """
    path = Path(folder) / LABEL
    try:
        if path.stat().st_size > LONGEST:
            raise UsageError(f"bridge {str(folder)!r} has a {LABEL} of more than {LONGEST:,} bytes; fit it again")
        label = LABELS.validate_json(text_of(path), strict=True, extra="forbid")
    except OSError as error:
        raise UsageError(
            f"bridge {str(folder)!r}: its {LABEL} cannot be read: {error.strerror}; expected a folder that "
            "`bridge fit` wrote"
        ) from error
    except ValueError as error:  # also of a name that no folder can have
        why = first_wrong(error, LABEL) if isinstance(error, ValidationError) else first_line(error)
        raise UsageError(f"bridge {str(folder)!r}: {why}; fit it again") from error
    if label.format != FORMAT:
        raise UsageError(f"bridge {str(folder)!r} has format {label.format}; this version reads {FORMAT}; fit it again")
    return label


def read_tensors(folder: str, label: Label) -> dict[str, torch.Tensor]:
    """Return the tensors of a label; sizes are checked before they are read, and the digest after it.

    Raises:
        UsageError: the folder's files do not belong together.
    """
    import safetensors.torch

    check_size(label)
    path, wrong = Path(folder) / TENSORS, f"bridge {folder!r}: its {TENSORS} "
    expected = label.nbytes
    try:
        with opened(path) as file:
            start = file.read(8)
            size = int.from_bytes(start, "little")
            if path.stat().st_size != 8 + size + expected or size > LONGEST:
                raise UsageError(f"{wrong}is not of the size that its label says ({expected:,} bytes); fit it again")
            header = json.loads(file.read(size))
        found = {name: (tuple(each["shape"]), each["dtype"]) for name, each in header.items() if name != "__metadata__"}
        if found != label.shapes():
            raise UsageError(f"{wrong}has {shown(found)}; expected {shown(label.shapes())}; fit it again")
        data = bytes_of(path)
        if hashlib.sha256(data).hexdigest() != label.digest:
            raise UsageError(f"{wrong}does not have the digest that its label says; fit it again")
        tensors = safetensors.torch.load(data)
    except OSError as error:
        raise UsageError(f"{wrong}cannot be read: {error.strerror}; fit it again") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, SafetensorError) as error:
        raise UsageError(f"{wrong}is damaged: {first_line(error)}; fit it again") from error
    if any(not bool(tensor.isfinite().all()) for tensor in tensors.values()):
        raise UsageError(f"{wrong}has a number that is not finite; fit it again")
    if bool((tensors["scale"] <= 0).any()):
        raise UsageError(f"{wrong}has a scale that is not positive; fit it again")
    return tensors
