"""What is carried in fewer bytes: how far it is off, what is left out of it, and how much smaller it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from sottovoce.channels.cipher import Cipher
from sottovoce.channels.compress import compressed, placed, uncertain, vectors
from sottovoce.channels.message import Message, MessageRef
from sottovoce.channels.options import LatentOptions
from sottovoce.channels.payload import Payload
from sottovoce.channels.protocol import Protocol
from sottovoce.channels.sde import SDE, Hidden
from sottovoce.channels.store import PayloadStore
from sottovoce.models import Rows, Sampling
from tests.support import hear, say, tiny_loaded

LOADED = tiny_loaded(num_hidden_layers=3)
MADE = torch.randn(2, 24, 16, generator=torch.Generator().manual_seed(2))
ENTROPY = torch.linspace(0, 1, 24)


def decoded(**options: Any) -> torch.Tensor:
    stored = compressed({"states": MADE}, ENTROPY, LatentOptions(**options))
    found = vectors(stored, "states")
    assert found is not None
    return placed(found, {**stored, "ids": torch.arange(24)})


def said(protocol: Protocol, store: PayloadStore) -> Message:
    return say(protocol, LOADED, store, sampling=Sampling(1.0, seed=3))


def payload_of(message: Message, store: PayloadStore) -> Payload:
    """As its file gives it back."""
    assert message.payload is not None
    return Payload.from_bytes(payload_bytes(message, store))


def payload_bytes(message: Message, store: PayloadStore) -> bytes:
    assert message.payload is not None
    data = store.read(message.payload.sha256)
    assert data is not None
    return data


def test_int8_is_off_by_half_a_step_of_its_row_at_most() -> None:
    step = MADE.abs().amax(-1, keepdim=True) / 127
    off = (decoded(carry_as="int8") - MADE).abs()
    assert (off <= step * 0.5001).all() and off.max() > 0


def test_the_most_uncertain_tokens_are_kept_and_the_first_of_equals() -> None:
    found = decoded(keep=0.25)

    assert torch.equal(found[:, 18:], MADE[:, 18:]) and not found[:, :18].any()
    assert uncertain(torch.tensor([1.0, 3, 2, 3, 3]), 0.4).tolist() == [1, 3]
    assert uncertain(torch.tensor([1.0, 3, 2]), 0.01).tolist() == [1]
    assert uncertain(torch.zeros(10), 0.3).tolist() == [0, 1, 2]  # 0.3 * 10 is a bit more than 3


@pytest.mark.parametrize("kind", [SDE, Hidden])
def test_states_that_are_not_kept_add_nothing(store: PayloadStore, kind: type[SDE]) -> None:
    message = said(kind(layers=(0, 1), keep=0.5, carry_as="int8"), store)
    payload = payload_of(message, store)

    request = hear(kind(layers=(0, 1)), LOADED, store, MessageRef(message))

    assert payload.carrying is not None and len(payload.carrying) == 4
    words = [at for at in range(8) if at not in payload.carrying]
    assert [bool(edit.delta[words].any()) for edit in request.edits] == [False, False]
    assert all(edit.delta[payload.carrying].any(dim=-1).all() for edit in request.edits)
    assert len(LOADED.engine.run(request).ids) == 8


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_that_are_not_kept_are_the_tokens(store: PayloadStore, sparse: bool) -> None:
    message = said(Cipher(keep=0.25), store)
    payload = payload_of(message, store)
    if sparse:  # heard by a model that was no known receiver
        rest = {name: tensor for name, tensor in payload.tensors.items() if not name.startswith("rows.")}
        payload = Payload(payload.label, rest)
        message = replace(message, payload=store.put(payload))

    (rows,) = [
        each.rows for each in hear(Cipher(), LOADED, store, MessageRef(message)).prompt if isinstance(each, Rows)
    ]

    table, kept = LOADED.table.rows[list(payload.ids)], payload.carrying
    assert kept is not None and len(kept) == 2
    same = (rows == table).all(-1)
    assert [at for at in range(8) if not same[at]] == kept.tolist()


@pytest.mark.parametrize(
    ("options", "part"),
    [({"carry_as": "bfloat16"}, 0.5), ({"carry_as": "int8"}, 0.25 + 1 / 32), ({"keep": 0.25}, 0.25 + 1 / 64)],
)
@pytest.mark.parametrize("kind", [Cipher, SDE])
def test_the_bytes_carried_shrink_as_told(store: PayloadStore, kind: type[Protocol], options: Any, part: float) -> None:
    layer: dict[str, Any] = {"layers": (0,)} if kind is SDE else {}
    whole, small = said(kind(**layer), store), said(kind(**layer, **options), store)

    before, after = payload_of(whole, store), payload_of(small, store)

    assert before.ids == after.ids and before.carried_bytes == 8 * 32 * 4
    assert after.carried_bytes == before.carried_bytes * part
    assert len(payload_bytes(small, store)) < len(payload_bytes(whole, store))
    assert small.payload is not None and small.payload.hidden == 32
    assert small.payload.dtype == options.get("carry_as", "float32")
