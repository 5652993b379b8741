"""Bytes of payloads that something happened to, read from memory and from a store."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from sottovoce.channels.payload import Label, Payload
from sottovoce.channels.store import PayloadStore
from sottovoce.core.errors import PayloadError
from tests.fuzz.cases import drawn, held, mutated


def sound() -> Payload:
    label = Label("cipher", "It is 4.", "tiny", "w", "v")
    tensors = {"ids": torch.arange(3), "spans": torch.zeros(3, 2, dtype=torch.long), "rows.t": torch.ones(3, 4)}
    return Payload(label, tensors)


def used(payload: Payload) -> None:
    """What everybody does with a payload once it is read."""
    _ = payload.ids, payload.spans, payload.states, payload.rows("t"), payload.carried, payload.carried_dtype
    _ = len(payload), payload.to_bytes()


@drawn("payloads")
def test_bytes_are_a_payload_or_refused_in_one_line(seeds: range, tmp_path: Path) -> None:
    data, store = sound().to_bytes(), PayloadStore(tmp_path / "store")
    ref = store.put(sound())
    file = next((tmp_path / "store").rglob("*.safetensors"))

    def case(rng: random.Random) -> None:
        changed = mutated(rng, data)
        if rng.random() < 0.7:
            used(Payload.from_bytes(changed))
            return
        file.write_bytes(changed)
        used(ref.load(PayloadStore(tmp_path / "store")))

    held("payloads", seeds, case)


@pytest.mark.parametrize("lacks", ["ids", "spans"])
def test_a_payload_without_tokens_or_their_places_is_refused(lacks: str) -> None:
    # Found by fuzzing: one flipped bit in a tensor's name was a KeyError at the first reader.
    payload = sound()
    tensors = {name: tensor for name, tensor in payload.tensors.items() if name != lacks}
    with pytest.raises(PayloadError, match=f"payload is damaged: {lacks} is missing; expected ids, spans"):
        Payload.from_bytes(Payload(payload.label, tensors).to_bytes())
