"""Channel probes: what is carried is replaced, words stay, and chance comes from seed, question and place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from sottovoce.channels.cipher import Cipher
from sottovoce.channels.message import Message, MessageRef
from sottovoce.channels.nl import NL
from sottovoce.channels.options import FROM_A_RUN, Probe
from sottovoce.channels.payload import Payload
from sottovoce.channels.probe import noise_like, probed
from sottovoce.channels.protocol import Protocol
from sottovoce.channels.sde import SDE, Hidden
from sottovoce.channels.store import PayloadRef, PayloadStore
from sottovoce.core.errors import UsageError
from sottovoce.models import Request, Rows, Sampling
from tests.support import hear, payload_of, prompt_ids, say, tiny_loaded

LOADED = tiny_loaded(num_hidden_layers=3)
WARM = Sampling(1.0, seed=3)
KINDS = (Cipher, SDE)


def under(kind: type[Protocol], probe: Probe) -> Protocol:
    options: dict[str, Any] = {"layers": (0, 1)} if kind in (SDE, Hidden) else {}
    return kind(probe=probe, probe_from="a run" if probe in FROM_A_RUN else "", **options)


def heard(kind: type[Protocol], store: PayloadStore, probe: Probe, message: Message) -> Request:
    return hear(under(kind, probe), LOADED, store, MessageRef(message))


def said(kind: type[Protocol], store: PayloadStore, prompt: str = "What is 14 + 3?", n: int = 8) -> Message:
    return say(under(kind, "none"), LOADED, store, prompt=prompt, sampling=WARM, max_new=n)


def donors_of(message: Message) -> tuple[PayloadRef, ...]:
    assert message.payload is not None
    return (message.payload,)


def carried(request: Request) -> list[torch.Tensor]:
    """The rows and the additions of a prompt."""
    return [piece.rows for piece in request.prompt if isinstance(piece, Rows)] + [e.delta for e in request.edits]


@pytest.mark.parametrize(("kind", "probe"), [(SDE, "zeroed"), (SDE, "text"), (Hidden, "zeroed"), (Cipher, "text")])
def test_without_its_tensors_a_message_is_heard_as_tokens(
    store: PayloadStore, kind: type[Protocol], probe: Probe
) -> None:
    message = said(kind, store)

    request, words = heard(kind, store, probe, message), hear(NL(), LOADED, store, MessageRef(message))

    assert carried(request) == [] and prompt_ids(request) == prompt_ids(words)
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


def test_the_rows_of_a_donor_are_heard_whole_and_in_their_own_number(store: PayloadStore) -> None:
    message, other = said(Cipher, store), said(Cipher, store, "Why is it so, and not otherwise?", n=5)

    (found,) = carried(hear(under(Cipher, "shuffled"), LOADED, store, MessageRef(message, donors=donors_of(other))))

    rows = payload_of(other, store).rows(LOADED.table.key)
    assert rows is not None and torch.equal(found, rows) and len(found) == 5


@pytest.mark.parametrize("n", [5, 11])
def test_the_states_of_a_donor_are_added_to_as_many_tokens_as_both_have(store: PayloadStore, n: int) -> None:
    message, other = said(SDE, store), said(SDE, store, "Why is it so, and not otherwise?", n=n)

    request = hear(under(SDE, "shuffled"), LOADED, store, MessageRef(message, donors=donors_of(other)))

    states, both = payload_of(other, store).states, min(n, 8)
    assert states is not None and prompt_ids(request) == prompt_ids(heard(SDE, store, "none", message))
    for layer, added in enumerate(carried(request)):
        assert len(added) == 8 and torch.equal(added[:both], states[layer, :both])
        assert added[both:].count_nonzero() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_noise_with_a_covariance_is_that_of_the_donors_at_the_norms_of_the_message(
    store: PayloadStore, kind: type[Protocol]
) -> None:
    message, other = said(kind, store), said(kind, store, "Why is it so, and not otherwise?")

    found = carried(hear(under(kind, "noise_cov"), LOADED, store, MessageRef(message, donors=donors_of(other))))

    plain = carried(heard(kind, store, "none", message))
    assert [each.norm(dim=-1).tolist() for each in found] == [
        pytest.approx(each.norm(dim=-1).tolist(), rel=1e-4) for each in plain
    ]
    assert not any(torch.equal(one, two) for one, two in zip(found, plain, strict=True))


def test_many_drawn_vectors_have_mean_and_directions_of_their_samples() -> None:
    chance = torch.Generator().manual_seed(1)
    samples = torch.randn(500, 3, generator=chance) * torch.tensor([9.0, 1.0, 0.1]) + torch.tensor([0.0, 5.0, 0.0])

    drawn = noise_like(torch.ones(20_000, 3), samples, chance)

    assert torch.allclose(drawn.norm(dim=-1), torch.tensor(3**0.5))
    assert drawn.mean(0)[1] > 0.5 and drawn.std(0)[0] > 5 * drawn.std(0)[2]


def test_chance_hangs_on_seed_question_and_place_and_never_on_what_is_carried(store: PayloadStore) -> None:
    one = said(SDE, store)
    payload = payload_of(one, store)
    assert payload.states is not None
    rounded = replace(
        one, payload=store.put(Payload(payload.label, {**payload.tensors, "states": payload.states * 1.000001}))
    )

    def drawn(message: Message, chance: str = "") -> torch.Tensor:
        return carried(hear(under(SDE, "noise"), LOADED, store, MessageRef(message, chance=chance)))[0]

    assert torch.allclose(drawn(one), drawn(rounded), atol=1e-4)
    for other in (drawn(replace(one, round=7)), drawn(one, "[1, 'q']")):
        assert torch.cosine_similarity(drawn(one), other, dim=-1).abs().max() < 0.9


@pytest.mark.parametrize("probe", ["shuffled", "zeroed", "noise", "text"])
@pytest.mark.parametrize("kind", KINDS)
def test_words_numbers_and_own_messages_stay_unprobed(store: PayloadStore, kind: type[Protocol], probe: Probe) -> None:
    message, donor = said(kind, store), payload_of(said(kind, store, "Why?"), store)
    payload = payload_of(message, store)

    found = probed(payload, LOADED, probe, seed="1", substitutes=[donor], part=False)

    if kind is Cipher and probe == "shuffled":
        assert found.to_bytes() == donor.to_bytes()  # whole: rows are all that is heard
        return
    kept = {name for name in payload.tensors if name.partition(".")[0] not in ("rows", "sparse", "states")}
    assert kept <= found.tensors.keys() and found.label == payload.label
    assert all(torch.equal(found.tensors[name], payload.tensors[name]) for name in kept)
    again = probed(payload, LOADED, probe, seed="1", substitutes=[donor], part=False)
    assert again.to_bytes() == found.to_bytes() != payload.to_bytes()
    own = [hear(under(kind, each), LOADED, store, MessageRef(message, own=True)) for each in (probe, "none")]
    assert prompt_ids(own[0]) == prompt_ids(own[1])
    assert all(torch.equal(one, other) for one, other in zip(*map(carried, own), strict=True))


def test_part_of_a_message_is_probed_as_in_the_whole(store: PayloadStore) -> None:
    message = said(Cipher, store)
    spans = payload_of(message, store).spans

    (whole,) = carried(heard(Cipher, store, "noise", message))
    part = hear(under(Cipher, "noise"), LOADED, store, MessageRef(message, (spans[2],)))

    assert torch.equal(carried(part)[0][0], whole[payload_of(message, store).tokens([spans[2]])[0]])


def test_part_of_a_message_under_another_s_rows_keeps_its_length(store: PayloadStore) -> None:
    """Seen: nothing was heard, since the part's characters were looked up in the other message's text."""
    message, other = said(Cipher, store), said(Cipher, store, "Why is it so, and not otherwise?", n=5)
    own = payload_of(message, store)
    part = MessageRef(message, (own.spans[2], own.spans[7]), donors=donors_of(other))

    (found,) = carried(hear(under(Cipher, "shuffled"), LOADED, store, part))

    rows = payload_of(other, store).rows(LOADED.table.key)
    assert rows is not None and torch.equal(found, rows[[at % 5 for at in own.tokens(part.spans)]])


def test_what_cannot_be_probed_is_refused_in_one_line(store: PayloadStore) -> None:
    with pytest.raises(UsageError, match="probe is 'noise', and protocol 'nl' carries only words; leave it out"):
        NL(probe="noise")
    with pytest.raises(UsageError, match="probe 'shuffled' needs messages of another run, but no run was named"):
        Cipher(probe="shuffled")
    with pytest.raises(UsageError, match="found no donor for a message"):
        hear(under(SDE, "shuffled"), LOADED, store, MessageRef(said(SDE, store)))
    (other,) = donors_of(said(Hidden, store))
    with pytest.raises(UsageError, match="the donor's protocol is 'hidden', the message's 'sde'"):
        hear(under(SDE, "shuffled"), LOADED, store, MessageRef(said(SDE, store), donors=(other,)))
