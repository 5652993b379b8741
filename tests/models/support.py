"""Engines without a past, kept busy or watched, for the tests of the engine and its parts."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import nn

from sottovoce.models import Engine, Feed, Ids, LoadedModel, Request, Rows, assemble
from sottovoce.models.engine.prefix_cache import PrefixCache
from tests.support import HIDDEN, ids, request, tiny_model, tiny_tokenizer

LIMIT = 600  # seconds; reached only where the engine hangs
POSITION = 2 * 2 * 2 * 8 * 4  # bytes of a position: layers, keys and values, heads, width, float32
Matrix = torch.Tensor
Kind = TypeVar("Kind")


def fresh(family: str = "qwen2", shape: Mapping[str, Any] | None = None, **options: Any) -> LoadedModel:
    """A loaded model whose engine has no past; `shape` as `tiny_model`, options as `assemble` take them."""
    return assemble("fresh", tiny_model(family, **(shape or {})), tiny_tokenizer(), **options)


@contextmanager
def busy(engine: Engine) -> Iterator[None]:
    """Keep the engine at work inside the block: what is asked in it waits, and is one batch afterwards."""
    began, done = threading.Event(), threading.Event()

    def wait(_logits: Matrix, p: Matrix) -> Matrix:
        began.set()
        done.wait(LIMIT)
        return p

    engine.submit(request(max_new=1, feed=Feed("mean", wait)))
    began.wait(LIMIT)
    try:
        yield
    finally:
        done.set()


def words(n: int, seed: int = 0) -> Ids:
    """Any n tokens, special ones aside."""
    generator = torch.Generator().manual_seed(seed)
    return Ids(tuple(torch.randint(3, 290, (n,), generator=generator).tolist()))


def spoiled(*before: Ids, n: int = 2) -> Request:
    """A request that no model reads to the end: rows that are no numbers."""
    return request((*(before or (Ids(ids("Hi")),)), Rows(torch.full((n, HIDDEN), torch.nan))))


def slots(columns: int, rows: int = 1) -> int:
    """Bytes of keys and values of slots of a tiny model, the spare column included."""
    return rows * (columns + 1) * POSITION


def hooks(model: nn.Module) -> int:
    """How many there are on all modules."""
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())


def consistent(cache: PrefixCache) -> bool:
    """Bytes add up within the budget, and every name leads to a run that is kept and has it."""
    return cache.nbytes == sum(run.nbytes for run in cache._runs) <= cache.budget and all(
        run in cache._runs and digest in run.digests for digest, run in cache._at.items()
    )


def living(kind: type[Kind]) -> list[Kind]:
    """All objects of a class that anything still holds."""
    gc.collect()
    return [each for each in gc.get_objects() if type(each) is kind]
