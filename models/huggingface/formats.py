"""The storage formats of a model's matrices: what each requires, and the memory that weights take in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import torch

from sottovoce.core.errors import ModelError, choose
from sottovoce.core.files import opened
from sottovoce.core.text import amount
from sottovoce.models.huggingface.devices import Place, free_memory
from sottovoce.models.huggingface.packed_weights import GROUP, ROWS, Packing

Dtype = Literal["auto", "float32", "bfloat16", "float16"]
"""The dtype that a model computes in."""
Weights = Literal["auto", "float32", "bfloat16", "int8", "int4"]
"""The storage format of linear maps: the dtype, or 8 or 4 bits for each value."""
PACKINGS: tuple[Packing, ...] = get_args(Packing)
BYTES = {"auto": 4, "float32": 4, "bfloat16": 2, "float16": 2, "int8": 1.25, "int4": 0.625}
"""Bytes of a value on a CPU; each group of int4 has two bytes of scale and two of zero."""
STORED = {"F32": 4, "BF16": 2, "F16": 2}
"""Bytes of a value in types that are read as they are; other types are quantized, and their size is not estimated."""
LONGEST = 100_000_000  # longest header in bytes, from the safetensors specification


def settled(dtype: Dtype, weights: Weights, place: Place, *, exact: bool = False) -> tuple[Dtype, Packing | None]:
    """Return the dtype to load in, and how to pack matrices afterwards, if at all.

    Raises:
        ModelError: an unknown or contradictory name, or a device or `exact` that the format rules out.
    """
    if dtype not in get_args(Dtype):
        raise ModelError(choose("dtype", dtype, get_args(Dtype)))
    if weights not in get_args(Weights):
        raise ModelError(choose("weights", weights, get_args(Weights)))
    for packing in PACKINGS:
        if weights == packing:
            _check_packed(dtype, packing, place, exact)
            return "float32", packing
    if "auto" not in (dtype, weights) and dtype != weights:
        raise ModelError(f"dtype is {dtype!r} and weights are {weights!r}; give one of them, or the same twice")
    return (dtype if weights == "auto" else weights), None  # type: ignore[return-value]  # int8 and int4 left above


def _check_packed(dtype: Dtype, packing: Packing, place: Place, exact: bool) -> None:
    if place != "cpu":
        where = place if isinstance(place, str) else "a map"
        raise ModelError(
            f"weights in {packing} require a CPU, but the device is {where!r}; use device cpu, or bfloat16 weights"
        )
    if dtype not in ("auto", "float32"):
        raise ModelError(
            f"a model with weights in {packing} computes in float32, but dtype is {dtype!r}; "
            f"leave dtype at auto, or give weights {dtype if dtype == 'bfloat16' else 'auto'}"
        )
    if exact:
        raise ModelError(never_exact(packing))


def never_exact(form: str) -> str:
    """Return the error message for `exact` with a format other than float32."""
    return f"exact requires weights in float32, but they are in {form}; give weights float32, or omit exact"


class Header(NamedTuple):
    """The dtype and shape of a tensor in a file."""

    kind: str
    shape: tuple[int, ...]


def check_memory(name: str, folder: Path, dtype: Dtype, packing: Packing | None, place: Place) -> None:
    """Refuse weights that do not fit in the CPU's memory.

    Models on a hub or spread over devices, and files that cannot be read, are not checked here.
    """
    headers = [*_headers(folder)] if place == "cpu" else []
    if any(header.kind not in STORED for header in headers):
        return
    form = packing or dtype
    after, while_loading = needed(headers, form)
    free = free_memory(torch.device("cpu"))
    if max(after, while_loading) > free:
        also = f" and {amount(while_loading)} while it is loaded" if while_loading > after else ""
        less = "use a smaller model" if packing else "give weights int8 or int4, or use a smaller model"
        raise ModelError(
            f"model {name!r} takes {amount(after)} in {'float32' if form == 'auto' else form}{also}, and "
            f"{amount(free)} of memory is available; free some, or {less}"
        )


def needed(headers: list[Header], form: Dtype | Packing) -> tuple[float, float]:
    """Return the bytes that weights take in a format: after loading, and while loading.

    A checkpoint in the dtype of the computation is mapped from its file page by page. Any other checkpoint is
    first widened as a whole and then packed. The tallest matrix is the embedding table, which stays float32.
    If only one matrix is that tall, a packed output head is made from it too.
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


def _headers(folder: Path) -> Iterator[Header]:
    for file in sorted(folder.glob("model*.safetensors")):
        try:
            with opened(file) as stream:  # safetensors would map the whole file
                tensors = json.loads(stream.read(min(int.from_bytes(stream.read(8), "little"), LONGEST)))
            for name in tensors.keys() - {"__metadata__"}:
                yield Header(tensors[name]["dtype"], tuple(tensors[name]["shape"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return  # the loader reports the error
