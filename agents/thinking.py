"""The thoughts of a local model before its reply.

Thoughts are requested separately, as tokens under every protocol; the reply is requested after their block. So a
payload has only the positions of the text, and forms, prefills and the maximum length apply after the thoughts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sottovoce.channels.payload import Payload
    from sottovoce.channels.protocol import Prompt, Protocol
    from sottovoce.models import LoadedModel, Record, Reply, Request, Sampling

OTHER_DRAWS = 0x7460
"""Mixed into the seed of the thoughts: the reply draws other numbers."""


@dataclass(frozen=True)
class Thoughts:
    """The block of thoughts that precedes a reply."""

    block: tuple[int, ...]
    """Its tokens with its markers, as far as the generation prompt has not written them."""
    text: str = ""
    tokens: int = 0
    prompt: int = 0
    """Positions of the prompt before it."""
    reused: int = 0
    note: str = ""
    payload: Payload | None = None
    """The payload that others hear of shared thoughts, and that monitors may measure."""


def skipped(loaded: LoadedModel) -> Thoughts | None:
    """Return the empty block of a call without thinking, or None if the model would not think anyway."""
    chat = loaded.chat
    if chat.block is None or not (chat.block.is_on or (chat.wish is False and chat.switch is None)):
        return None
    return Thoughts(chat.block.skip)


def request_for(
    prompt: Prompt, loaded: LoadedModel, sampling: Sampling, limit: int, record: Record, reply: int
) -> Request | None:
    """Return the request for the thoughts, or None if they and a reply of `reply` tokens exceed the context."""
    from sottovoce.models import Request, Stop  # late: it imports torch

    block = loaded.chat.block
    assert block is not None, "the model thinks"
    prompt = prompt.with_block(block.open)
    context = loaded.network.context
    if context is not None:
        limit = min(limit, context - sum(map(len, prompt.pieces)) - len(block.forced) - reply)
    if limit < 1:
        return None
    ids = loaded.stop_ids if block.end is None else (*loaded.stop_ids, block.end)
    texts = (block.markers.end_marker,) if block.end is None else ()
    return Request(
        prompt.pieces,
        Stop(limit, ids, texts, special=bool(texts)),
        edits=prompt.placed(),
        sampling=replace(sampling, seed=sampling.seed ^ OTHER_DRAWS),
        record=record,
    )


def thoughts_of(reply: Reply, loaded: LoadedModel, protocol: Protocol) -> Thoughts:
    """Return the thoughts with their closing marker. The marker is added if the model did not write it.

    `protocol` records the payload of the thoughts.
    """
    block = loaded.chat.block
    assert block is not None, "the model thinks"
    payload = protocol.record_reply(reply, loaded)
    closed = reply.finish != "length"
    note = "" if closed else f"thoughts ended at their limit of {len(reply.ids)} tokens"
    return Thoughts(
        (*block.open, *reply.ids, *(loaded.chat.ids(block.markers.close) if closed else block.forced)),
        payload.label.text,
        len(reply.ids),
        reply.usage.prompt - len(block.open),
        min(reply.usage.reused, reply.usage.prompt - len(block.open)),
        note,
        payload,
    )


def reply_behind(request: Request, loaded: LoadedModel) -> Request:
    """Return the request for a reply without markers of thoughts; it ends at the family's end tokens of texts."""
    block = loaded.chat.block
    if block is None:
        return request
    stop = replace(request.stop, ids=tuple(dict.fromkeys([*request.stop.ids, *block.text_ends])))
    return replace(request, stop=stop, banned=block.banned)
