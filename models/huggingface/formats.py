"""The storage formats of a model's matrices: what each requires, and the memory that weights take in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import BinaryIO, Literal, get_args

import torch

from sottovoce.core.errors import ModelError, nearest
from sottovoce.core.files import opened
from sottovoce.core.text import amount
from sottovoce.models.huggingface.devices import Place, free_memory
from sottovoce.models.huggingface.packed_weights import Packing

Dtype = Literal["auto", "float32", "bfloat16", "float16"]
"""The dtype that a model computes in."""
Weights = Literal["auto", "float32", "bfloat16", "int8", "int4"]
"""The storage format of linear maps: the dtype, or 8 or 4 bits for each value."""
PACKINGS: tuple[Packing, ...] = get_args(Packing)
BYTES = {"auto": 4, "float32": 4, "bfloat16": 2, "float16": 2, "int8": 1.25, "int4": 0.625}
"""Bytes of a value on a CPU; each group of int4 has two bytes of scale and two of zero."""
STORED = ("F32", "BF16", "F16")
"""Types that are read as they are; other types are quantized, and their size is not estimated."""
LONGEST = 10_000_000
"""Bytes of the longest header of a file. The largest mixtures of experts have 2 MB; a header of 90 MB, of 900,000 empty
tensors, took a minute."""


def settled(dtype: Dtype, weights: Weights, place: Place, *, exact: bool = False) -> tuple[Dtype, Packing | None]:
    """Return the dtype to load in, and how to pack matrices afterwards, if at all.

    Raises:
        ModelError: an unknown or contradictory name, or a device or `exact` that the format rules out.
    """
    if dtype not in get_args(Dtype):
        raise ModelError(nearest("dtype", dtype, get_args(Dtype)))
    if weights not in get_args(Weights):
        raise ModelError(nearest("weights", weights, get_args(Weights)))
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


def check_memory(name: str, folder: Path, dtype: Dtype, packing: Packing | None, place: Place) -> None:
    """Refuse weights that do not fit in the CPU's memory while they are loaded.

    Models on a hub or spread over devices, quantized ones, and files that cannot be read are not checked here.
    """
    headers = [*_headers(folder)] if place == "cpu" else []
    if any(kind not in STORED for kind, _ in headers):
        return
    form = packing or dtype
    takes, free = needed(headers, form), free_memory(torch.device("cpu"))
    if takes > free:
        less = "use a smaller model" if packing else "give weights int8 or int4, or use a smaller model"
        raise ModelError(
            f"model {name!r} takes {amount(takes)} to load in {'float32' if form == 'auto' else form}, and "
            f"{amount(free)} of memory is available; free some, or {less}"
        )


def needed(headers: list[tuple[str, int]], form: Dtype | Packing) -> float:
    """Return the bytes that weights take at most while they are loaded, from the type and size of each tensor.

    A checkpoint in the dtype of the computation is mapped from its file page by page. Any other one that is packed is
    first widened as a whole. The largest matrix is the embedding table, which stays float32 beside the packed head.
    """
    sizes = [size for _, size in headers]
    if form not in ("int8", "int4"):
        return BYTES[form] * sum(sizes)
    if any(kind != "F32" for kind, _ in headers):
        return 4 * sum(sizes)
    return BYTES[form] * sum(sizes) + 4 * max(sizes, default=0)


def header_size(stream: BinaryIO) -> int:
    """Return the number of bytes of a safetensors file's header, from the beginning of the file."""
    return int.from_bytes(stream.read(8), "little")


def _headers(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield the type and the number of values of each tensor."""
    for file in sorted(folder.glob("model*.safetensors")):
        try:
            with opened(file) as stream:  # safetensors would map the whole file
                tensors = json.loads(stream.read(min(header_size(stream), LONGEST)))
            for name in tensors.keys() - {"__metadata__"}:
                yield tensors[name]["dtype"], prod(tensors[name]["shape"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, MemoryError):
            return  # the loader reports the error
