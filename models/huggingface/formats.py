"""The storage formats of a model's matrices, and what each requires."""

from __future__ import annotations

from typing import Literal, get_args

from sottovoce.core.errors import ModelError, choose
from sottovoce.models.huggingface.devices import Place
from sottovoce.models.huggingface.packed_weights import Packing

Dtype = Literal["auto", "float32", "bfloat16", "float16"]
"""The dtype that a model computes in."""
Weights = Literal["auto", "float32", "bfloat16", "int8", "int4"]
"""The storage format of linear maps: the dtype, or 8 or 4 bits for each value."""
PACKINGS: tuple[Packing, ...] = get_args(Packing)


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
            f"weights in {packing} require a CPU, but the device is {where!r}; give device cpu, or weights bfloat16"
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
