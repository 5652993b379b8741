"""Checks of a payload's tensors: against one another when a file is read or written, and against the model that reads.

A payload may come from anywhere. A wrong shape would fail deep in an engine that other requests share, a wrong
position would read another token's state, and one NaN makes every token behind it NaN.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from sottovoce.channels.compress import KEPT, SCALE
from sottovoce.core.errors import PayloadError

if TYPE_CHECKING:
    import torch

    from sottovoce.models import LoadedModel

MOST_POSITIONS = 2**31
"""Limit on a position that keys are rotated for."""
AXES = {
    **dict.fromkeys(("ids", "logprob", "entropy", "varentropy", "kurtosis", "sparse.covered"), "n"),
    **{"spans": "n 2", "top_ids": "n top", "top_logprobs": "n top", KEPT: "kept"},
    **{"rows": "kept *", "bridged": "n *", "sparse.ids": "n k", "sparse.weights": "n k", "states": "layers kept *"},
    **{"keys": "layers heads p w", "values": "layers heads p w", "at": "p", "masked": "* p", "text": "p"},
    **{"inputs": "p *", "characters": "*"},
    **{"thought_ids": "*", "state": "1 *"},
    **dict.fromkeys(("first_keys", "first_values"), "others heads 1 w"),
}
"""The axes of each tensor, by its name or the first part of it; * is any size. See `channels.payload`."""
INTEGERS = ("ids", "spans", "top_ids", "sparse.ids", KEPT, "at", "masked", "text", "characters", "thought_ids")
STATISTICS = ("logprob", "entropy", "varentropy", "kurtosis", "top_logprobs")
"""Numbers that may be infinite, such as the logarithm of 0."""
TOGETHER = (
    ("ids", "spans"),
    ("values", "at"),
    ("first_keys", "first_values"),
    ("sparse.ids", "sparse.weights"),
    ("text", "inputs", "characters"),
)
"""Tensors of which none is read without the others; each payload has the first."""
Tensors = Mapping[str, "torch.Tensor"]


def check(tensors: Tensors, layers: Sequence[int], characters: int) -> None:
    """Refuse tensors that do not fit one another, the layers listed, or a text of so many characters.

    Tensors with other names belong to other packages' protocols, and are only checked for NaN.

    Raises:
        PayloadError: the payload is damaged; the message names the first tensor that does not fit.
    """
    for wrong in chain(_shapes(tensors, layers), _values(tensors, layers, characters)):
        raise PayloadError(f"payload is damaged: {wrong}; run again")


def check_for(tensors: Tensors, layers: Sequence[int], *, loaded: LoadedModel, same: bool, shared: bool) -> None:
    """Refuse tensors that do not fit the reader; `same`: it has the speaker's weights, `shared`: the speaker's tokens.

    Raises:
        PayloadError: the payload contradicts its label.
    """
    for wrong in _unfit(tensors, layers, loaded, same, shared):
        raise PayloadError(f"payload does not fit {loaded.name!r}, which its label names: {wrong}; run again")


def check_tokens(tensors: Tensors, tokens: int) -> None:
    """Refuse token ids beyond a table of so many tokens. Errors: see `check`."""
    for wrong in _tokens(tensors, tokens):
        raise PayloadError(f"payload is damaged: {wrong}; run again")


def _wrong(name: str, value: object, expected: object) -> str:
    return f"{name} is {value}; expected {expected}"


def _outside(name: str, tensor: torch.Tensor, least: int, most: int | None) -> Iterator[str]:
    for value in map(int, (tensor.min(), tensor.max())) if tensor.numel() else ():
        if value < least or (most is not None and value > most):
            yield _wrong(name, value, f"{least} or more" if most is None else f"{least} to {most}")


def _tokens(tensors: Tensors, tokens: int) -> Iterator[str]:
    for name in ("ids", "sparse.ids", "thought_ids"):
        if name in tensors:
            yield from _outside(f"a token of {name}", tensors[name], 0, tokens - 1)


def _shapes(tensors: Tensors, layers: Sequence[int]) -> Iterator[str]:
    for names in TOGETHER:
        missing = {*names} - tensors.keys()
        if missing and ("ids" in names or len(missing) < len(names)):
            yield _wrong(min(missing), "missing", ", ".join(names))
    if "keys" in tensors and "values" not in tensors:
        yield _wrong("values", "missing", "keys, values, at")
    if [*layers] != sorted({*layers}) or min(layers, default=0) < 0:
        yield _wrong("the label's list of layers", [*layers], "them ascending, from 0")
    sizes = {"n": len(tensors["ids"]), "layers": len(layers), "2": 2, "1": 1}
    if "at" in tensors:  # keys of a reply without words have no first position either
        sizes["1"] = min(tensors["at"].numel(), 1)
    sizes["kept"] = len(tensors.get(KEPT, tensors["ids"]))
    for name, tensor in sorted(tensors.items()):
        plain = name.removesuffix(SCALE)
        axes = AXES.get(plain, AXES.get(plain.partition(".")[0], "")).split()
        if not axes:
            continue
        axes = axes[:-1] if name != plain else axes
        shape = [sizes.get(axis, size) for axis, size in zip(axes, tensor.shape, strict=False)]
        if shape != [*tensor.shape] or len(axes) != tensor.dim():
            known = ", ".join(f"{axis} = {sizes[axis]}" for axis in axes if axis in sizes and not axis.isdigit())
            yield _wrong(f"the shape of {name}", tuple(tensor.shape), f"({', '.join(axes)}) with {known}")
        sizes |= {axis: size for axis, size in zip(axes, tensor.shape, strict=False) if axis != "*"}
        whole = not tensor.is_floating_point() and not tensor.is_complex()
        if whole != (plain in INTEGERS or (name == plain and plain + SCALE in tensors)):
            yield _wrong(f"the type of {name}", tensor.dtype, "real numbers" if whole else "whole numbers")


def _values(tensors: Tensors, layers: Sequence[int], characters: int) -> Iterator[str]:
    n = len(tensors["ids"])
    most = {"spans": characters, KEPT: n - 1, "at": MOST_POSITIONS, "masked": 1, "characters": sys.maxunicode}
    most["text"] = len(tensors.get("characters", ()))
    for name in [name for name in INTEGERS if name in tensors]:
        least = -1 if name in ("ids", "text") else 0  # providers return no ids, and a template is no text
        yield from _outside(f"a value of {name}", tensors[name], least, most.get(name))
    if bool((tensors["spans"][:, 0] > tensors["spans"][:, 1]).any()):
        yield _wrong("a span", "backwards", "its start before its end")
    if KEPT in tensors and bool((tensors[KEPT].diff() <= 0).any()):
        yield _wrong(f"the order of {KEPT}", "another", "ascending places")
    depth = len(layers) + len(tensors.get("first_keys", ()))
    if "values" in tensors and ([*layers[:1]] != [0] or layers[-1] >= depth):
        yield _wrong("the list of layers of keys", [*layers], f"layer 0 among them, of {depth}")
    if "masked" in tensors and (found := len(tensors["masked"])) != depth:
        yield _wrong("the number of layers of masked", found, depth)
    for name, tensor in sorted(tensors.items()):
        if tensor.is_floating_point() and bool(tensor.isnan().any()):
            yield _wrong(f"a value of {name}", "NaN", "numbers")
        elif tensor.is_floating_point() and name not in STATISTICS and not bool(tensor.isfinite().all()):
            yield _wrong(f"a value of {name}", "infinite", "finite numbers")


def _unfit(tensors: Tensors, layers: Sequence[int], loaded: LoadedModel, same: bool, shared: bool) -> Iterator[str]:
    table, network = loaded.table, loaded.network
    if shared:
        yield from _tokens(tensors, len(table))
    widths = {name: table.width + 1 for name in tensors if name.startswith(f"bridged.{table.key}.")}
    widths[f"rows.{table.key}"] = table.width
    if same:
        widths |= {"states": network.hidden, "state": network.hidden}
    for name, width in widths.items():
        if name in tensors and (found := tensors[name].shape[-1]) != width:
            yield _wrong(f"the width of {name}", found, width)
    if same and layers and max(layers) >= loaded.layers:
        yield _wrong("a layer", max(layers), f"0 to {loaded.layers - 1}")
    if same and "values" in tensors:
        values, depth = tensors["values"], len(layers) + len(tensors.get("first_keys", ()))
        if (own := (values.shape[1], values.shape[3], depth)) != (expected := (*network.cache_shape, loaded.layers)):
            yield _wrong("keys of (heads, width, layers)", own, expected)
        if network.context is not None:
            yield from _outside("a position of the keys", tensors["at"], 0, network.context - 1)
