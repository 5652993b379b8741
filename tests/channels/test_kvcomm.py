"""kv under `compat="reference"`: what KVComm's published code does, beside a slow reference without our engine.

The published code is not part of this project, so these are not recordings of it: the reference here is plain attention
over one cache for each layer, with the masks that transformers gives to caches of unequal lengths.
"""

from __future__ import annotations

from contextlib import ExitStack

import pytest
import torch
from transformers import DynamicCache

from sottovoce.channels.kv import KV
from sottovoce.channels.message import MessageRef
from sottovoce.channels.payload import Payload
from sottovoce.channels.store import PayloadStore
from sottovoce.models import LoadedModel
from sottovoce.models.huggingface.family import cache_argument
from tests.channels.test_handed_over import FACT, LOADED, QUESTION, asked, chat, hand, logprobs
from tests.models.support import together
from tests.support import close, payload_of

Part = tuple[torch.Tensor, torch.Tensor]
"""Keys and values (heads, n, width) of one layer."""


def whole_and_first(payload: Payload) -> tuple[dict[int, Part], dict[int, Part]]:
    """The layers of a sender with all positions, and those with the first alone."""
    tensors, layers = payload.tensors, payload.label.layers
    whole = {layer: (tensors["keys"][i], tensors["values"][i]) for i, layer in enumerate(layers)}
    count = len(layers) + len(tensors.get("first_keys", ()))
    rest = [layer for layer in range(count) if layer not in layers]
    return whole, {layer: (tensors["first_keys"][i], tensors["first_values"][i]) for i, layer in enumerate(rest)}


def reply_over(
    loaded: LoadedModel, caches: list[Part], prompt: tuple[int, ...], count: int
) -> tuple[list[int], list[float]]:
    """Tokens and their log-probabilities behind a prompt that is read over a cache of its own length in each layer.

    The mask has as many columns as the first layer needs; a shorter layer gets its left part. Later tokens see all.
    """
    past, sent, ids, found = DynamicCache(), caches[0][0].shape[1], list(prompt), []
    for layer, (keys, values) in enumerate(caches):
        past.update(keys[None], values[None], layer)
    mask, read = torch.ones(len(ids), sent + len(ids)).tril(sent).bool(), 0
    while len(ids) < len(prompt) + count:
        new, at = ids[read:], torch.arange(sent + read, sent + len(ids))[None]
        with torch.inference_mode(), ExitStack() as stack:
            for layer, (keys, _) in zip(loaded.network.layers, caches, strict=True):
                left = mask[None, None, :, : keys.shape[1] + len(ids)] if not read else None
                hook = lambda _, inputs, named, left=left: (inputs, {**named, "attention_mask": left})  # noqa: E731
                stack.callback(layer.register_forward_pre_hook(hook, with_kwargs=True).remove)
            options = {cache_argument(loaded.model): past}
            logits = loaded.model(torch.tensor([new]), position_ids=at, **options).logits[0, -1]
        read = len(ids)
        ids.append(int(logits.argmax()))
        found.append(float(logits.log_softmax(-1)[ids[-1]]))
    return ids[len(prompt) :], found


@pytest.mark.parametrize("sent", [FACT, "Hi"])
def test_layers_left_out_read_the_prompt_under_the_left_part_of_the_mask(sent: str, store: PayloadStore) -> None:
    """A query sees as many later positions as its layer lacks: all, if the sender's prompt is at least as long."""
    protocol = KV(compat="reference", layers=(2,))
    message = MessageRef(hand(protocol, store, sent))
    whole, first = whole_and_first(payload_of(message.message, store))
    prompt = chat(LOADED, QUESTION).ids
    expected = reply_over(LOADED, [{**whole, **first}[layer] for layer in range(4)], prompt, 6)
    request = asked(protocol, store, message)
    reply = LOADED.engine.run(request)
    assert list(reply.ids) == expected[0] and close(logprobs(reply), torch.tensor(expected[1]), 1e-4)
    causal = LOADED.engine.run(asked(KV(layers=(2,)), store, message))
    assert not close(logprobs(reply)[:1], logprobs(causal)[:1], 1e-4)


def test_what_sees_later_positions_is_read_alone_in_company_and_again_alike(store: PayloadStore) -> None:
    protocol = KV(compat="reference", layers=(2,))
    messages = [MessageRef(hand(protocol, store, sent)) for sent in (FACT, "You know: 22 pears, and 5 figs.")]
    requests = [asked(protocol, store, each) for each in messages]
    requests += [asked(KV(layers=(2,)), store, messages[0]), asked(KV(), store, messages[0])]
    engine = LOADED.engine.twin()
    expected = [LOADED.engine.twin(reuse=False).run(each) for each in requests]
    for replies in (
        together(engine, requests),
        engine.run_all(requests),
        LOADED.engine.twin(exact=True).run_all(requests),
    ):
        for reply, alone in zip(replies, expected, strict=True):
            assert reply.ids == alone.ids and close(logprobs(reply), logprobs(alone), 2e-5)
