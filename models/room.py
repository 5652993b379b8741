"""Whether a model's weights fit into memory in a format, told from the headers of its files before they are read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import NamedTuple

import torch

from sottovoce.errors import ModelError
from sottovoce.models.engine.memory import free_memory
from sottovoce.models.huggingface.devices import Place
from sottovoce.models.huggingface.formats import Dtype
from sottovoce.models.huggingface.packed import GROUP, ROWS, Packing
from sottovoce.regular import opened
from sottovoce.sizes import amount

BYTES = {"auto": 4, "float32": 4, "bfloat16": 2, "float16": 2, "int8": 1.25, "int4": 0.625}
"""Of a value, on a CPU; a group of int4 has two bytes of scale and two of zero."""
STORED = {"F32": 4, "BF16": 2, "F16": 2}
"""Types of files that are read as they are; others are quantised, and their size is not foretold."""
LONGEST = 100_000_000  # bytes of a file's header, by the definition of safetensors


class Header(NamedTuple):
    """Of a tensor in a file."""

    kind: str
    shape: tuple[int, ...]


def check_room(name: str, folder: Path, dtype: Dtype, packing: Packing | None, place: Place) -> None:
    """Refuse weights that the CPU's memory cannot hold.

    Those of a hub, spread ones, and files that cannot be read are not looked at here.

    Raises:
        ModelError: gives the figures.
    """
    headers = [*_headers(folder)] if place == "cpu" else []
    if any(header.kind not in STORED for header in headers):
        return
    after, while_loading = needed(headers, packing or dtype)
    free = free_memory(torch.device("cpu"))
    if max(after, while_loading) > free:
        also = f" and {amount(while_loading)} while it is loaded" if while_loading > after else ""
        less = "use a smaller model" if packing else "give weights int8 or int4, or use a smaller model"
        raise ModelError(
            f"model {name!r} takes {amount(after)} in {_said(packing or dtype)}{also}, and {amount(free)} of memory "
            f"are free; free some, or {less}"
        )


def needed(headers: list[Header], form: Dtype | Packing) -> tuple[float, float]:
    """Bytes that weights take in a format: once they are loaded, and while they are.

    A checkpoint in the dtype that is computed in is mapped from its file, page by page; another one is
    widened first, all of it, and packed then. The tallest matrix is the embedding table, which stays
    float32; where it is the only one so tall, the head is packed from it too.
    """
    if form not in ("int8", "int4"):
        whole = BYTES[form] * sum(prod(header.shape) for header in headers)
        return whole, whole
    tallest = max((header.shape[0] for header in headers if len(header.shape) == 2), default=0)
    tables = [header for header in headers if len(header.shape) == 2 and header.shape[0] == tallest]
    others = [header for header in headers if header not in tables]
    packed = [*(header for header in others if _fits(header)), *filter(_fits, tables[1:] or tables)]
    floats = [*(header for header in others if not _fits(header)), *tables[:1]]
    after = sum(BYTES[form] * prod(each.shape) for each in packed) + sum(4 * prod(each.shape) for each in floats)
    return after, sum(4 * prod(header.shape) for header in headers if STORED[header.kind] != 4)


def _fits(header: Header) -> bool:
    return len(header.shape) == 2 and header.shape[0] % ROWS == 0 and header.shape[1] % GROUP == 0


def _said(form: str) -> str:
    return "float32" if form == "auto" else form


def _headers(folder: Path) -> Iterator[Header]:
    for file in sorted(folder.glob("model*.safetensors")):
        try:
            with opened(file) as stream:  # safetensors would map all of it
                tensors = json.loads(stream.read(min(int.from_bytes(stream.read(8), "little"), LONGEST)))
            for name in tensors.keys() - {"__metadata__"}:
                yield Header(tensors[name]["dtype"], tuple(tensors[name]["shape"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return  # whoever reads it says what is wrong
