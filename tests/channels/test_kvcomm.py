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
from sottovoce.channels.kv_layers import calibrated, chosen_layers
from sottovoce.channels.message import MessageRef, Turn
from sottovoce.channels.options import COMPAT
from sottovoce.channels.payload import Payload
from sottovoce.channels.store import PayloadStore
from sottovoce.core.errors import ProtocolError
from sottovoce.models import Cached, LoadedModel
from sottovoce.models.huggingface.family import cache_argument
from tests.channels.test_handed_over import FACT, LOADED, QUESTION, asked, chat, hand, logprobs
from tests.models.support import together
from tests.support import close, payload_of, tiny_loaded

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
            for module, (keys, _) in zip(loaded.network.layers, caches, strict=True):
                left = mask[None, None, :, : keys.shape[1] + len(ids)] if not read else None
                hook = lambda _, inputs, named, left=left: (inputs, {**named, "attention_mask": left})  # noqa: E731
                stack.callback(module.register_forward_pre_hook(hook, with_kwargs=True).remove)
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


@pytest.mark.parametrize(("layers", "sent"), [((1, 2), ("You know: 22 pears.", FACT)), ((2,), ("Yes", "Hi"))])
def test_only_the_first_sender_hands_firsts_over(
    layers: tuple[int, ...], sent: tuple[str, str], store: PayloadStore
) -> None:
    """Both senders count from 0, and a message that is heard twice stands there once."""
    protocol = KV(compat="reference", layers=layers, positions="paper")
    messages = [MessageRef(hand(protocol, store, each, agent=each)) for each in sent]
    (whole, first), (more, _) = (whole_and_first(payload_of(each.message, store)) for each in messages)
    both = {layer: [*zip(whole[layer], more[layer], strict=True)] for layer in whole}
    joined = {layer: (torch.cat(keys, 1), torch.cat(values, 1)) for layer, (keys, values) in both.items()}
    prompt, request = chat(LOADED, QUESTION).ids, asked(protocol, store, *messages)
    expected = reply_over(LOADED, [{**joined, **first}[layer] for layer in range(4)], prompt, 6)
    reply = LOADED.engine.run(request)
    assert list(reply.ids) == expected[0] and close(logprobs(reply), torch.tensor(expected[1]), 1e-4)
    again = protocol.encode_prompt([Turn("user", (*messages, *messages))], LOADED, lambda ref: ref.load(store))
    assert [piece.digest for piece in again.pieces[:3] if isinstance(piece, Cached)] == [
        piece.digest for piece in request.prompt if isinstance(piece, Cached)
    ]


DEPTHS = [(7, (1, 3)), (7, (0, 1, 2, 3)), (3, (0, 3)), (2, (0, 1, 2, 3)), (2, (1, 3))]


@pytest.mark.parametrize(("depth", "layers"), DEPTHS)
def test_another_depth_leaves_layers_empty_or_joins_those_that_meet(
    depth: int, layers: tuple[int, ...], store: PayloadStore
) -> None:
    reader = tiny_loaded("llama", num_hidden_layers=depth, sharp=0.15)
    protocol = KV(compat="reference", layers=layers, allow_other_weights=True)
    protocol.check(LOADED, reader)
    message = MessageRef(hand(protocol, store))
    whole, first = whole_and_first(payload_of(message.message, store))
    nothing = whole[0][0][:, :0]
    caches = [(nothing, nothing) for _ in range(depth)]
    for layer in range(4):
        place = round((layer + 0.5) * depth / 4 - 0.5)
        keys, values = {**whole, **first}[layer]
        caches[place] = torch.cat([caches[place][0], keys], 1), torch.cat([caches[place][1], values], 1)
    expected = reply_over(reader, caches, chat(reader, QUESTION).ids, 6)
    reply = reader.engine.run(asked(protocol, store, message, loaded=reader))
    assert list(reply.ids) == expected[0] and close(logprobs(reply), torch.tensor(expected[1]), 1e-4)


@pytest.mark.parametrize(("depth", "layers"), [(3, ()), (3, (2, 3)), (12, ())])
def test_depths_at_which_the_published_code_fails_are_refused(depth: int, layers: tuple[int, ...]) -> None:
    reader = tiny_loaded("llama", num_hidden_layers=depth)
    with pytest.raises(ProtocolError, match="the first gets none; use compat paper, or models of equal depth"):
        KV(compat="reference", layers=layers, allow_other_weights=True).check(LOADED, reader)
    KV(layers=layers, allow_other_weights=True).check(LOADED, reader)


@pytest.mark.parametrize("family", ["llama", "gemma3_text"])
def test_importance_under_a_mask_that_is_added_as_one_and_zero(family: str) -> None:
    """By hand: scores from the logarithms of weights without any mask; the states before a layer stay as they are."""
    loaded = tiny_loaded(family, sharp=0.15, sliding_window=512)
    network, ids = loaded.network, list(chat(loaded, QUESTION).ids)
    usual, found = network.attentions(ids), network.attentions(ids, masks_hide=False)
    seen, nothing = torch.ones(len(ids), len(ids)).tril(), torch.zeros(1, 1, len(ids), len(ids))
    for layer, (weights, causal) in enumerate(zip(found, usual, strict=True)):
        handle = network.layers[layer].register_forward_pre_hook(
            lambda _, inputs, named: (inputs, {**named, "attention_mask": nothing}), with_kwargs=True
        )
        scores = network.attentions(ids)[layer].log()  # less a number for each query
        handle.remove()
        assert close(causal, scores.masked_fill(seen == 0, -torch.inf).softmax(-1), 1e-4)
        assert close(weights, (scores + seen).softmax(-1), 1e-4)
    assert not close(calibrated(loaded, masks_hide=False), calibrated(loaded), 1e-2)
    assert calibrated(loaded, masks_hide=False) is calibrated(loaded, masks_hide=False)


def test_of_equal_scores_the_last_layer_is_chosen() -> None:
    """Alone by the Gaussian: layers 1 and 2 of four are equally near to the middle."""
    paper, reference = (chosen_layers(LOADED, 0.25, 0.0, COMPAT[name]) for name in ("paper", "reference"))
    assert (paper, reference) == ((0, 1), (0, 2)) and chosen_layers(LOADED, 0.25, 0.0) == paper


def test_a_share_of_layers_is_taken_as_it_is_written() -> None:
    """0.58 * 50 is 28.999999999999996."""
    deep = tiny_loaded("llama", num_hidden_layers=50)
    assert chosen_layers(deep, 0.58, 0.0) == (0, *range(10, 39))


def test_the_rules_change_nothing_where_all_layers_of_equal_models_are_handed_over(store: PayloadStore) -> None:
    pieces = []
    for protocol in (KV(), KV(compat="reference")):
        request = asked(protocol, store, MessageRef(hand(protocol, store)))
        pieces.append([piece for piece in request.prompt if isinstance(piece, Cached)])
        assert not request.sight and not request.hidden
    (paper,), (reference,) = pieces
    assert torch.equal(paper.keys, reference.keys) and paper.layers == reference.layers == (0, 1, 2, 3)
