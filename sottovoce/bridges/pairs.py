"""Reads texts with both models: features of the sender's positions, and the receiver's numbers at the same characters.

A token of the sender is paired with the receiver's tokens of the same characters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from sottovoce.bridges.texts import Lesson
from sottovoce.channels.bridge import MOST, features, handed, rows_of
from sottovoce.channels.message import Turn
from sottovoce.core.errors import UsageError
from sottovoce.models import Ids, KeysValues, LoadedModel, Record, Request, Stop

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
    counts: torch.Tensor,
    report: Callable[[int], object],
) -> tuple[list[Read], torch.Tensor]:
    """Return the lessons with their features, and the receiver's numbers (m, O) at all of their positions."""
    known, targets, n = list[Read](), list[torch.Tensor](), 0
    for loaded in (sender, receiver):
        loaded.engine.forget()  # a text that was read before would be rounded otherwise
    for lesson in lessons:
        own, other = (loaded.chat.ids(lesson.text, plain=True) for loaded in (sender, receiver))
        (sent,), (cache,) = keys_values(sender, [own], keys=False), keys_values(receiver, [other], keys=True)
        known.append(Read(lesson, features(handed(sent, sender), counts)))
        rows = torch.cat([rows_of(unrotated(receiver, cache)), rows_of(cache.values)], dim=1)
        targets.append(rows[aligned(sender, own, receiver, other, counts)])
        n += len(own)
        report(n)
    return known, torch.cat(targets)


def counts_of(sender: LoadedModel, receiver: LoadedModel) -> torch.Tensor:
    """Return the positions (V,) that each token of the sender becomes: the receiver's tokens for its text."""
    texts = (sender.detokenizer(special=True).text((id,)) for id in range(len(sender.table)))
    found = [len(receiver.chat.ids(text, plain=True)) for text in texts]
    return torch.tensor(found).clamp(1, MOST).to(torch.uint8)


def aligned(
    sender: LoadedModel,
    ours: tuple[int, ...],
    receiver: LoadedModel,
    theirs: tuple[int, ...],
    counts: torch.Tensor,
) -> list[int]:
    """Return the position of the receiver for each position that the sender's tokens become.

    These are the tokens that end within the sender's token, or else the one that goes on behind it.
    """
    ends = [
        [end for _, end in loaded.detokenizer(special=True).spans(ids)]
        for loaded, ids in ((sender, ours), (receiver, theirs))
    ]
    found, last = list[int](), -1
    for id, end in zip(ours, ends[0], strict=True):
        within = [i for i in range(last + 1, len(theirs)) if ends[1][i] <= end]
        last = within[-1] if within else last
        within = within or [min(last + 1, len(theirs) - 1)]
        count = int(counts[id])
        found += [*(within[min(i, len(within) - 1)] for i in range(count - 1)), within[-1]]
    return found
