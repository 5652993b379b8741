"""Reads texts with both models: features of the sender's positions, and the receiver's numbers at the same characters.

A token of the receiver is paired with the sender's position that has read to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from sottovoce.bridges.texts import Lesson
from sottovoce.channels.bridge import features, handed, rows_of, text_of
from sottovoce.channels.message import Turn
from sottovoce.core.errors import UsageError
from sottovoce.models import Ids, KeysValues, LoadedModel, Record, Request, Stop

TEXTS_IN_CACHE = 100  # the engines then forget them
HOLE: Any = object()  # Any: not a message
"""Stands for a user's text in a chat."""


@dataclass(frozen=True, eq=False)
class Read:
    """A lesson with its features (m, F)."""

    lesson: Lesson
    features: torch.Tensor


def head_of(loaded: LoadedModel) -> tuple[int, ...]:
    """Return the template's ids before the text of a first user's turn.

    Raises:
        UsageError: the template has none, so that nothing is there to be attended to.
    """
    pieces = loaded.chat.encode([Turn("user", (HOLE,))], opened=False)
    head = tuple(id for piece in pieces[: pieces.index(HOLE)] if isinstance(piece, tuple) for id in piece)
    if not head:
        raise UsageError(
            f"the chat template of {loaded.name!r} begins with the user's text; a bridge needs a mark before"
        )
    return head


def keys_values(loaded: LoadedModel, texts: Sequence[tuple[int, ...]], *, keys: bool) -> list[KeysValues]:
    """Return the values (L, h, n, w) of texts behind the template's head, and the keys.

    Each text is read alone: a batch is what has arrived in time, and rounds otherwise.
    """
    head = Ids(head_of(loaded))
    record = Record(cache=("text",), keys=keys)
    requests = (Request((head, Ids(text, "text")), Stop(0), record=record) for text in texts)
    return [each for each in (loaded.engine.run(request).cache for request in requests) if each is not None]


def unrotated(loaded: LoadedModel, cache: KeysValues) -> torch.Tensor:
    """Return the keys (L, h, n, w) as if each stood at position 0."""
    return loaded.network.rotary.turn(cache.keys, range(loaded.layers), -cache.at)


def read(
    sender: LoadedModel,
    receiver: LoadedModel,
    lessons: Sequence[Lesson],
    report: Callable[[int], object],
) -> tuple[list[Read], list[torch.Tensor]]:
    """Return the lessons with their features, and for each the receiver's numbers (m, O) at its tokens."""
    known, targets, n = list[Read](), list[torch.Tensor](), 0
    for i, lesson in enumerate(lessons):
        if i % TEXTS_IN_CACHE == 0:
            for loaded in (sender, receiver):
                loaded.engine.forget()  # gigabytes at the end; and what was read before a fit would round it
        ours = sender.chat.ids(lesson.text, plain=True)
        sent = handed(keys_values(sender, [ours], keys=False)[0], sender)
        theirs = receiver.chat.ids(text_of(sent), plain=True)  # a tokenizer may have changed the text
        (own,) = keys_values(receiver, [theirs], keys=True)
        known.append(Read(lesson, features(sent, range(len(ours)), receiver)))
        targets.append(torch.cat([rows_of(unrotated(receiver, own)), rows_of(own.values)], dim=1))
        n += len(ours)
        report(n)
    return known, targets
