"""Channel probes: what is carried is replaced, words and numbers stay, and chance comes from the message."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from sottovoce.channels.cipher import Cipher
from sottovoce.channels.message import Heard, Message, Turn
from sottovoce.channels.nl import NL
from sottovoce.channels.options import Probe
from sottovoce.channels.payload import Payload
from sottovoce.channels.probe import fitted, noise, probed, resampled
from sottovoce.channels.protocol import Protocol
from sottovoce.channels.sde import SDE, Hidden
from sottovoce.channels.store import PayloadStore
from sottovoce.errors import UsageError
from sottovoce.models import Ids, Request, Rows, Sampling
from tests.support import hear, say, tiny_loaded

LOADED = tiny_loaded(num_hidden_layers=3)
WARM = Sampling(1.0, seed=3)
KINDS = (Cipher, SDE, Hidden)


def under(kind: type[Protocol], probe: Probe) -> Protocol:
    options: dict[str, Any] = {"layers": (0, 1)} if kind in (SDE, Hidden) else {}
    return kind(probe=probe, probe_from="a run" if probe == "shuffled" else "", **options)


def heard(kind: type[Protocol], store: PayloadStore, probe: Probe, message: Message) -> Request:
    return hear(under(kind, probe), LOADED, store, Heard(message))


def said(kind: type[Protocol], store: PayloadStore, prompt: str = "What is 14 + 3?") -> Message:
    return say(under(kind, "none"), LOADED, store, prompt=prompt, sampling=WARM)


def payload_of(message: Message, store: PayloadStore) -> Payload:
    assert message.payload is not None
    return message.payload.load(store)


def ids_of(request: Request) -> list[int]:
    return [id for piece in request.prompt if isinstance(piece, Ids) for id in piece.ids]


def carried(request: Request) -> list[torch.Tensor]:
    """The rows and the additions of a prompt."""
    return [piece.rows for piece in request.prompt if isinstance(piece, Rows)] + [e.delta for e in request.edits]


@pytest.mark.parametrize(("kind", "probe"), [(SDE, "zeroed"), (SDE, "text"), (Hidden, "zeroed"), (Cipher, "text")])
def test_without_what_is_carried_a_message_is_heard_as_its_tokens(
    store: PayloadStore, kind: type[Protocol], probe: Probe
) -> None:
    message = said(kind, store)

    request, words = heard(kind, store, probe, message), hear(NL(), LOADED, store, Heard(message))

    assert carried(request) == [] and ids_of(request) == ids_of(words)
    assert LOADED.engine.run(request).ids == LOADED.engine.run(replace(words, feed=request.feed)).ids


def test_zeroed_rows_are_the_mean_of_the_table(store: PayloadStore) -> None:
    (rows,) = carried(heard(Cipher, store, "zeroed", said(Cipher, store)))

    assert len(rows) == 8
    assert torch.allclose(rows, LOADED.table.rows.mean(0).expand(8, -1), atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_noise_keeps_the_norm_of_each_vector_and_nothing_else(store: PayloadStore, kind: type[Protocol]) -> None:
    message = said(kind, store)

    plain, noisy = carried(heard(kind, store, "none", message)), carried(heard(kind, store, "noise", message))

    assert len(plain) == len(noisy) == (1 if kind is Cipher else 2)
    for one, other in zip(plain, noisy, strict=True):
        assert torch.allclose(one.norm(dim=-1), other.norm(dim=-1), rtol=1e-5)
        assert torch.cosine_similarity(one, other, dim=-1).abs().max() < 0.9  # of 32 dimensions


def test_noise_is_made_where_the_vectors_are() -> None:
    assert noise(torch.ones(2, 3, device="meta"), torch.Generator().manual_seed(1)).device.type == "meta"


def test_noise_differs_between_tokens_layers_and_messages() -> None:
    chance = torch.Generator().manual_seed(1)

    drawn = noise(torch.ones(2, 3, 4), chance)

    assert len({tuple(vector.tolist()) for vector in drawn.reshape(-1, 4)}) == 6


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_shuffled_is_the_donors_at_the_length_of_the_message(store: PayloadStore, kind: type[Protocol]) -> None:
    message, other = said(kind, store), said(kind, store, "Why is it so, and not otherwise?")

    found = carried(hear(under(kind, "shuffled"), LOADED, store, Heard(message, donor=other.payload)))

    own = carried(heard(kind, store, "none", message))
    assert [each.shape for each in found] == [each.shape for each in own]
    assert not any(torch.equal(one, other) for one, other in zip(found, own, strict=True))
    vectors = payload_of(other, store).carried
    assert vectors is not None
    known = {tuple(vector.tolist()) for vector in vectors.reshape(-1, vectors.shape[-1])}
    assert all(tuple(vector.tolist()) in known for each in found for vector in each)


def test_states_are_cut_or_padded_and_rows_drawn_in_their_order() -> None:
    states = torch.arange(1.0, 13).reshape(2, 3, 2)
    rows = torch.arange(4.0)[:, None]

    assert torch.equal(fitted(states, 2), states[:, :2])
    assert fitted(states, 5)[:, 3:].count_nonzero() == 0 and torch.equal(fitted(states, 5)[:, :3], states)
    drawn = resampled(rows, 9, torch.Generator().manual_seed(0)).flatten().tolist()
    assert len(drawn) == 9 and drawn == sorted(drawn) and {*drawn} <= {0.0, 1.0, 2.0, 3.0}


def test_the_row_of_an_end_is_never_drawn(store: PayloadStore) -> None:
    message, donor = payload_of(said(Cipher, store), store), payload_of(said(Cipher, store, "Why?"), store)
    ends = torch.tensor([5, *[LOADED.stop_ids[0]] * 7])
    ended = Payload(donor.label, {**donor.tensors, "ids": ends})

    found = probed(message, LOADED, "shuffled", seed="ab" * 32, donor=ended).rows(LOADED.table.key)

    mine = donor.rows(LOADED.table.key)
    assert found is not None and mine is not None
    assert torch.equal(found, mine[:1].expand(8, -1))


@pytest.mark.parametrize("probe", ["shuffled", "zeroed", "noise", "text"])
@pytest.mark.parametrize("kind", KINDS)
def test_words_numbers_and_own_messages_stay_and_a_probe_repeats(
    store: PayloadStore, kind: type[Protocol], probe: Probe
) -> None:
    message, donor = said(kind, store), payload_of(said(kind, store, "Why?"), store)
    payload = payload_of(message, store)

    found = probed(payload, LOADED, probe, seed="1" * 64, donor=donor)

    kept = {name for name in payload.tensors if name.partition(".")[0] not in ("rows", "sparse", "states")}
    assert kept <= found.tensors.keys() and found.label == payload.label
    assert all(torch.equal(found.tensors[name], payload.tensors[name]) for name in kept)
    again = probed(payload, LOADED, probe, seed="1" * 64, donor=donor)
    assert again.to_bytes() == found.to_bytes() != payload.to_bytes()
    own = [hear(under(kind, each), LOADED, store, Heard(message, own=True)) for each in (probe, "none")]
    assert ids_of(own[0]) == ids_of(own[1])
    assert all(torch.equal(one, other) for one, other in zip(*map(carried, own), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_a_first_round_is_the_same_under_every_probe(store: PayloadStore, kind: type[Protocol]) -> None:
    asked = [hear(under(kind, probe), LOADED, store) for probe in ("none", "noise", "shuffled")]

    assert len({str(request) for request in asked}) == 1


def test_part_of_a_message_is_probed_as_in_the_whole(store: PayloadStore) -> None:
    message = said(Cipher, store)
    spans = payload_of(message, store).spans

    (whole,) = carried(heard(Cipher, store, "noise", message))
    part = hear(under(Cipher, "noise"), LOADED, store, Heard(message, (spans[2],)))

    assert torch.equal(carried(part)[0][0], whole[payload_of(message, store).tokens([spans[2]])[0]])


def test_what_cannot_be_probed_is_refused_in_one_line(store: PayloadStore) -> None:
    with pytest.raises(UsageError, match="probe is 'noise', and protocol 'nl' carries words alone; leave it out"):
        NL(probe="noise")
    with pytest.raises(UsageError, match="probe is 'shuffled' and probe_from ''; give shuffled and a finished run"):
        Cipher(probe="shuffled")
    with pytest.raises(UsageError, match="found no donor beside a message"):
        hear(under(SDE, "shuffled"), LOADED, store, Heard(said(SDE, store)))
    other = said(Hidden, store).payload
    with pytest.raises(UsageError, match="the donor's protocol is 'hidden', the message's 'sde'"):
        hear(under(SDE, "shuffled"), LOADED, store, Heard(said(SDE, store), donor=other))


def test_a_donor_survives_json(store: PayloadStore) -> None:
    heard = Heard(said(SDE, store), donor=said(SDE, store, "Why?").payload)

    assert Heard.from_dict(heard.to_dict()) == heard
    assert Turn("user", (heard,)).text == heard.message.text
