"""Bridges: fitted maps from what one model computed of a text to keys and values of another model.

Two models of different families share neither tokens nor states. A bridge is a linear map from what a sender computed
of a token to the keys (before their rotation) and values of all layers of a receiver. It is applied once for each token
that the receiver's own tokenizer has for the text: a name of one token here may be three there, and the receiver must
find each to say it. `sottovoce.bridges` fits it.

For a token of the receiver, the features are those of the sender's position that has read to its end: the values of all
layers, which have no rotation and do not depend on where they stood; its input embedding and the one before it (0 where
a text begins); and, as a 1 among PIECES places, how many tokens before it share that position.

The receiver attends most to its first position (an attention sink), which no other model's can replace: so a bridged
piece before a prompt begins with the receiver's own keys and values.

`channels.bridge_files` reads and writes the folder of a bridge.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from threading import Lock

import torch
from torch.nn.functional import one_hot

from sottovoce.channels.bridge_files import PIECES, Label, read_label, read_tensors
from sottovoce.models import Cached, KeysValues, LoadedModel

CUT = 8.0  # standard deviations: single coordinates of a state can be hundreds of times larger than the rest
_reading = Lock()
Tensors = Mapping[str, torch.Tensor]


@dataclass(frozen=True, eq=False)
class Bridge:
    """A map from a sender's text to keys and values of a receiver."""

    label: Label
    tensors: Tensors = field(repr=False)

    @cached_property
    def weight(self) -> torch.Tensor:
        """The map in float32, (F, O)."""
        return self.tensors["weight"].float()

    def fits(self, tensors: Tensors) -> bool:
        """Return True for what a model of its sender's shape hands over: see `handed`."""
        side, (layers, heads, _, width) = self.label.sender, tensors["values"].shape
        fits = side.shape == (layers, heads, width) and "text" in tensors
        return fits and tensors["inputs"].shape[1] == side.embedding

    def mapped(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the receiver's keys, not rotated, and values (L, heads, m, w) for features (m, F)."""
        known = standardized(rows, self.tensors["mean"], self.tensors["scale"])
        side = self.label.receiver
        return split(known @ self.weight + self.tensors["bias"], side.layers, side.heads)

    def piece(self, tensors: Tensors, places: Sequence[int], loaded: LoadedModel, *, first: bool) -> Cached:
        """Return the texts at some places as a piece of the receiver's prompt; `first`: they begin the prompt.

        `tensors` are those of `handed`, of all positions.
        """
        rows = features(tensors, places, loaded)
        keys, values = self.mapped(rows)
        head = self.label.head if first and len(rows) else 0
        at = torch.arange(head, head + keys.shape[2])
        layers = tuple(range(loaded.layers))
        keys = loaded.network.rotary.turn(keys, layers, at)
        if head:
            keys = torch.cat([self.tensors["head_keys"], keys], dim=2)
            values = torch.cat([self.tensors["head_values"], values], dim=2)
            at = torch.arange(keys.shape[2])
        none = keys[:0, :, :1]
        return Cached(keys, values, layers, at, none, none)


def handed(cache: KeysValues, loaded: LoadedModel) -> dict[str, torch.Tensor]:
    """Return what a sender hands over for a bridge, of its n positions.

    `values` (l, h, n, w); `inputs` (n, E), the input embeddings of texts, 0 elsewhere; `characters` (c,), the texts one
    after another, for the receiver's tokenizer; `text` (n,), how many of these a position has read, -1 where none is.
    """
    assert cache.text is not None, "it comes from the engine"
    ids, ends, characters = cache.text.tolist(), [-1] * len(cache.text), ""
    detokenizer = loaded.detokenizer(special=True)
    for run in runs_of([i for i, id in enumerate(ids) if id >= 0]):
        tokens = tuple(ids[i] for i in run)
        for i, (_, end) in zip(run, detokenizer.spans(tokens), strict=True):
            ends[i] = len(characters) + end
        characters += detokenizer.text(tokens)
    rows = loaded.table.rows[cache.text.clamp_min(0).to(loaded.table.rows.device)].cpu()
    return {
        "values": cache.values,
        "inputs": rows * (cache.text >= 0)[:, None],
        "text": torch.tensor(ends, dtype=torch.long),
        "characters": torch.tensor([ord(each) for each in characters], dtype=torch.int32),
    }


def features(tensors: Tensors, at: Sequence[int], receiver: LoadedModel) -> torch.Tensor:
    """Return the features (m, F) of the receiver's tokens for the texts at some positions; `tensors`: see `handed`."""
    found, which = list[int](), list[int]()
    for i in _ends(tensors, at, receiver):
        which.append(min(which[-1] + 1, PIECES - 1) if found[-1:] == [i] else 0)
        found.append(i)
    inputs = tensors["inputs"].float()
    before = torch.cat([torch.zeros_like(inputs[:1]), inputs[:-1]])
    rows = torch.cat([rows_of(tensors["values"]), inputs, before], dim=1)[found]
    return torch.cat([rows, one_hot(torch.tensor(which, dtype=torch.long), PIECES)], dim=1)


def _ends(tensors: Tensors, at: Sequence[int], receiver: LoadedModel) -> list[int]:
    """Return for each of the receiver's tokens the position that has read to its end."""
    ends, characters, found = tensors["text"].tolist(), text_of(tensors), list[int]()
    for run in runs_of([i for i in at if ends[i] >= 0]):
        start = max([0, *ends[: run[0]]])
        ids = receiver.chat.ids(characters[start : ends[run[-1]]], plain=True)
        read = [ends[i] - start for i in run]
        spans = receiver.detokenizer(special=True).spans(ids)
        found += [run[min(bisect_left(read, end), len(run) - 1)] for _, end in spans]
    return found


def text_of(tensors: Tensors) -> str:
    """Return the texts that a sender handed over, as its tokens say them."""
    return "".join(map(chr, tensors["characters"].tolist())).encode(errors="replace").decode()


def runs_of(at: Sequence[int]) -> list[list[int]]:
    """Return positions in runs of which each follows the one before: [2, 3, 7] is [[2, 3], [7]]."""
    runs = list[list[int]]()
    for i in at:
        if runs and runs[-1][-1] + 1 == i:
            runs[-1].append(i)
        else:
            runs.append([i])
    return runs


def rows_of(values: torch.Tensor) -> torch.Tensor:
    """Return values (l, h, n, w) as one row for each position, (n, l * h * w)."""
    return values.float().permute(2, 0, 1, 3).flatten(1)


def standardized(rows: torch.Tensor, mean: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Return features (n, F) as standard deviations from the mean, cut at +-CUT."""
    return ((rows - mean) / scale).clamp(-CUT, CUT)


def split(rows: torch.Tensor, layers: int, heads: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return rows (n, 2 * L * heads * w) as keys and values (L, heads, n, w)."""
    parts = rows.unflatten(1, (2, layers, heads, -1)).permute(1, 2, 3, 0, 4)
    return parts[0].contiguous(), parts[1].contiguous()


def read_bridge(folder: str | Path) -> Bridge:
    """Return the bridge in a folder; sizes are checked before the tensors are read, and the digest after it.

    Raises:
        UsageError: the folder is no bridge, or its files do not belong together.
    """
    return _read_once(folder, read_label(folder))


def _read_once(folder: str | Path, label: Label) -> Bridge:
    """Return a bridge; discussions that run at the same time wait for one copy of its tensors."""
    with _reading:
        found = _read(str(Path(folder).resolve()), label)
        _ = found.weight  # widened here, since Python 3.12 does not lock cached properties
    return found


@lru_cache(maxsize=8)
def _read(folder: str, label: Label) -> Bridge:
    return Bridge(label, read_tensors(folder, label))


def bridge_for(sender: str, receiver: LoadedModel, labels: Mapping[str, Label]) -> Bridge | None:
    """Return the bridge from a model, by its `weights_key`, to a loaded model, or None if no folder's label has it.

    Raises:
        UsageError: the folder's files do not belong together.
    """
    for folder, label in labels.items():
        ends = label.sender.weights, label.receiver.weights, label.receiver.vocabulary, label.receiver.shape
        shape = (receiver.layers, *receiver.network.cache_shape)
        if ends == (sender, receiver.weights_key, receiver.vocabulary_key, shape):
            return _read_once(folder, label)
    return None
