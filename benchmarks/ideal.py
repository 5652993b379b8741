"""What a prefix cache without limits could reuse: the longest beginning that anything read before shares."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from sottovoce.models import Engine, Reply, Request
from sottovoce.models.engine.keys import id_keys, position_keys, row_keys


class Watched(Engine):
    """An engine that notes what was asked of it and what came, in the order of the events."""

    def __init__(self, *arguments: Any, **options: Any) -> None:  # Any: an engine's own
        """As an engine."""
        super().__init__(*arguments, **options)
        self.events: list[tuple[Request, Reply | None]] = []

    def submit(self, request: Request, on_text: Any = None) -> Future[Reply]:  # Any: as an engine's own
        """As ever, noted; the answer with it."""
        self.events.append((request, None))
        future = super().submit(request, on_text)
        future.add_done_callback(lambda done: self.events.append((request, done.result())))
        return future


class Tree:
    """Beginnings, position by position."""

    def __init__(self) -> None:
        """Start with nothing read."""
        self._root: dict[bytes, Any] = {}  # Any: a tree of dictionaries

    def add(self, keys: Sequence[bytes]) -> None:
        """Note what was read."""
        node = self._root
        for key in keys:
            node = node.setdefault(key, {})

    def common(self, keys: Sequence[bytes]) -> int:
        """How many positions of a beginning were read before."""
        node: dict[bytes, Any] | None = self._root
        for n, key in enumerate(keys):
            node = node.get(key) if node is not None else None
            if node is None:
                return n
        return len(keys)


def possible(engine: Watched) -> dict[Request, int]:
    """By request, the positions of its prompt that were read before it was asked; the last is always read anew."""
    tree, found = Tree(), dict[Request, int]()
    for request, reply in engine.events:
        keys = position_keys(request, engine.network.table.rows.dtype)
        if reply is None:
            found[request] = min(tree.common(keys), len(keys) - 1)
            tree.add(keys)
        else:
            tree.add([*keys, *_read(reply, request, engine)])
    return found


def _read(reply: Reply, request: Request, engine: Watched) -> list[bytes]:
    """Keys of the reply's positions that were read: a reply that was cut at its length ended before its last token."""
    n = len(reply.ids) - (reply.finish == "length" and not request.record.layers)
    rows = reply.rows.get(engine.network.table.key)
    return id_keys(reply.ids[:n]) if rows is None else row_keys(rows[:n].to(engine.network.table.rows.dtype))
