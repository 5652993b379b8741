"""Bytes of the tensors that live, and the most there were: what torch's own counters tell only of a GPU."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """Counts the storages that operations of this thread make, until they are freed."""

    def __init__(self) -> None:
        """Start at nothing: what was there before does not count."""
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own
        self.now = self.peak = 0
        self._seen: dict[weakref.ref[torch.UntypedStorage], int] = {}

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],  # Any: an operator, its arguments and what it gives
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run the operator and count what it made."""
        made = func(*args, **(kwargs or {}))
        given = {_storage(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)}
        for leaf in tree_leaves(made):
            if isinstance(leaf, torch.Tensor) and _storage(leaf) not in given:
                self._count(leaf.untyped_storage())
        return made

    def _count(self, storage: torch.UntypedStorage) -> None:
        ref = weakref.ref(storage, self._freed)
        if ref not in self._seen:
            self._seen[ref] = storage.nbytes()
            self.now += storage.nbytes()
            self.peak = max(self.peak, self.now)

    def _freed(self, ref: weakref.ref[torch.UntypedStorage]) -> None:
        self.now -= self._seen.pop(ref)


def _storage(tensor: torch.Tensor) -> int:
    cdata: int = tensor.untyped_storage()._cdata
    return cdata
