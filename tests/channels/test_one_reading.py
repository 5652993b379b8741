"""What a sender hands over that thinks and writes, too, is what one plain reading of the whole sequence computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from transformers import DynamicCache

from sottovoce.channels import create
from sottovoce.channels.kv import NAMES
from sottovoce.channels.message import Message, MessageRef, Turn
from sottovoce.channels.payload import Payload
from sottovoce.channels.protocol import Protocol
from sottovoce.channels.sde import Graft
from sottovoce.channels.store import PayloadStore
from sottovoce.models import Cached, Ids, Origin, Reply
from sottovoce.models.huggingface.family import cache_argument
from tests.support import close, request_of, tiny_loaded

LOADED = tiny_loaded("llama", num_hidden_layers=4, sharp=0.15)
FACT, OTHER, NEW, STEPS = "Mia has 3 apples.", "You know: 22 pears.", 6, 3
ADDED: dict[str, tuple[Origin, ...]] = {
    "prompt": ("prompt",),
    "reply": ("thoughts", "words"),
    "both": ("prompt", "thoughts", "words"),
}


@dataclass
class Sent:
    """A message, what was recorded of it, and the inputs of its sender with the origin of each."""

    message: Message
    payload: Payload
    rows: torch.Tensor
    origins: list[Origin]


def send(protocol: Protocol, store: PayloadStore, text: str, heard: Sent | None = None) -> Sent:
    """What an agent that writes hands over, after it heard another one."""
    parts = (MessageRef(heard.message), text) if heard else (text,)
    request = request_of(protocol, [Turn("user", parts)], LOADED, lambda ref: ref.load(store), NEW)
    reply: Reply = LOADED.engine.run(request)
    assert len(reply.ids) == NEW
    payload = protocol.record_reply(reply, LOADED)
    message = Message("agent_1", 0, "brief", payload.label.text, payload=store.put(payload))
    own = LOADED.network.embed(
        torch.tensor([id for part in request.prompt if isinstance(part, Ids) for id in part.ids])
    )
    thoughts = own[:0] if reply.thoughts is None else reply.thoughts
    before = own[:0] if heard is None else heard.rows
    rows = [before, own, thoughts, LOADED.network.embed(torch.tensor(reply.ids))]
    names: tuple[Origin, ...] = ("received", "prompt", "thoughts", "words")
    origins = [name for name, each in zip(names, rows, strict=True) for _ in each]
    return Sent(message, payload, torch.cat(rows), origins)


@torch.inference_mode()
def read(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The keys and values (L, heads, n, w) of one plain pass, and the states (L + 1, n, H) between the layers."""
    cache: Any = DynamicCache()
    found = LOADED.model(inputs_embeds=rows[None], **{cache_argument(LOADED.model): cache}, output_hidden_states=True)
    keys, values = (torch.cat([getattr(each, name) for each in cache.layers]) for name in ("keys", "values"))
    return keys, values, torch.cat(found.hidden_states)


@pytest.mark.parametrize(
    ("name", "options", "heard"),
    [
        ("kv", {}, False),
        ("kv", {"layers": (2,)}, True),
        ("thoughts", {"latent_steps": STEPS}, True),
        ("thoughts", {"latent_steps": STEPS, "realign": True, "layers": (1, 3)}, False),
    ],
    ids=["kv", "kv of a layer after another", "thoughts after others", "realigned thoughts of layers"],
)
def test_keys_and_values_are_of_one_reading(
    name: str, options: dict[str, Any], heard: bool, store: PayloadStore
) -> None:
    whole = {key: value for key, value in options.items() if key != "layers"}
    first = send(create(name, **whole, carry="both", keep="all"), store, OTHER) if heard else None
    chosen = sorted({0, *options.get("layers", range(LOADED.layers))})
    kept = [
        (keep, carry) for keep in ("added", "all") for carry in ADDED if keep == "added" or carry == "both" or heard
    ]
    for keep, carry in [*kept, *([("thoughts", "both")] if name == "thoughts" else [])]:
        sent = send(create(name, **options, carry=carry, keep=keep), store, FACT, first)

        wanted = {"thoughts"} if keep == "thoughts" else {*ADDED[carry], *(["received"] if keep == "all" else [])}
        at = [i for i, origin in enumerate(sent.origins) if origin in wanted]
        keys, values, _ = read(sent.rows)
        assert sent.payload.tensors["at"].tolist() == at, (keep, carry)
        assert close(sent.payload.tensors["keys"], keys[chosen][:, :, at], 1e-4), (keep, carry)
        assert close(sent.payload.tensors["values"], values[chosen][:, :, at], 1e-4), (keep, carry)
        *names, last = (NAMES[each] for each in dict.fromkeys(sent.origins[i] for i in at))
        assert sent.payload.label.origin == (f"{', '.join(names)} and {last}" if names else last)


@pytest.mark.parametrize(
    ("name", "options"), [("kv", {}), ("thoughts", {"latent_steps": STEPS})], ids=["kv", "thoughts"]
)
def test_a_quoted_part_is_its_part_of_the_reading(name: str, options: dict[str, Any], store: PayloadStore) -> None:
    protocol = create(name, **options, carry="both", place="quoted")
    sent = send(protocol, store, FACT)
    words = [i for i, origin in enumerate(sent.origins) if origin == "words"]
    turn = Turn("user", ("You hear: ", MessageRef(sent.message, (sent.payload.spans[2],)), OTHER))

    prompt = protocol.encode_prompt([turn], LOADED, lambda ref: ref.load(store))

    (piece,) = (each for each in prompt.pieces if isinstance(each, Cached))
    keys, values, _ = read(sent.rows)
    at = [words[i] for i in sent.payload.tokens((sent.payload.spans[2],))]
    assert piece.at.tolist() == at
    assert close(piece.keys, keys[:, :, at], 1e-4) and close(piece.values, values[:, :, at], 1e-4)


@pytest.mark.parametrize("layer", [1, 3])
def test_a_grafted_state_is_that_of_the_prompt_s_end_whatever_was_written_then(layer: int, store: PayloadStore) -> None:
    sent = send(Graft(layer_from=layer, layer_to=layer), store, FACT)

    *_, states = read(sent.rows)
    end = sent.origins.index("words") - 1
    assert close(sent.payload.tensors["state"], states[layer][[end]], 1e-4)
    assert not close(sent.payload.tensors["state"], states[layer][[-1]], 1e-2)
