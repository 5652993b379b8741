from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from sottovoce.channels.cipher import Cipher, Weights
from sottovoce.channels.message import MessageRef, Turn
from sottovoce.channels.nl import NL
from sottovoce.channels.options import CompatName, Partial
from sottovoce.channels.payload import Payload
from sottovoce.channels.store import PayloadRef, PayloadStore
from sottovoce.core.errors import ProtocolError
from sottovoce.models import LoadedModel, Request, Sampling, assemble
from sottovoce.models.engine.sampling import Temperatures, distribution
from tests.support import (
    VOCABULARY,
    close,
    hear,
    longer_tokenizer,
    noise,
    payload_of,
    reciting_loaded,
    request_of,
    rows_in,
    say,
    tiny_loaded,
    tiny_model,
)
from tests.tables import each_row

LOGITS = 3 * noise(40, 20)


def lower(
    loaded: LoadedModel, protocol: Cipher | NL, temperature: float = 0.0, max_new: int = 12, **how: Any
) -> Request:
    return request_of(
        protocol, [Turn("user", ("What is 14 + 3?",))], loaded, never, max_new, Sampling(temperature), **how
    )


def never(ref: PayloadRef) -> Payload:
    raise AssertionError(f"nothing is heard here, but {ref} was asked for")


# The one invariant that ties CIPHER to words


@pytest.mark.parametrize(
    ("family", "temperature"), [("qwen2", 0.0), ("gemma2", 1e-6), ("bloom", 0.0), ("opt-narrow", 1e-6)]
)
def test_cipher_at_temperature_zero_is_greedy_speech_token_by_token(family: str, temperature: float) -> None:
    loaded = tiny_loaded(family)
    words, latent = lower(loaded, NL()), lower(loaded, Cipher(), temperature)

    said, thought = loaded.engine.run(words), loaded.engine.run(latent)

    assert thought.ids == said.ids and thought.finish == said.finish
    assert torch.equal(thought.rows[loaded.table.key], loaded.table.rows[list(said.ids)])


def test_a_message_of_sure_means_is_heard_as_its_words_are(store: PayloadStore) -> None:
    loaded = tiny_loaded()
    thought, said = say(Cipher(), loaded, store), say(NL(), loaded, store)

    latent = loaded.engine.run(hear(Cipher(), loaded, store, MessageRef(thought)))
    words = loaded.engine.run(hear(NL(), loaded, store, MessageRef(said)))

    assert latent.ids == words.ids


# The reference's other choices


@pytest.mark.parametrize(
    ("compat", "temperature", "found"), [("paper", 0.0, 0.0), ("reference", 0.0, 1.0), ("reference", 0.3, 0.3)]
)
def test_the_reference_reads_temperature_zero_as_one(compat: CompatName, temperature: float, found: float) -> None:
    assert lower(tiny_loaded(), Cipher(compat=compat), temperature).sampling.temperature == found


def test_the_reference_keeps_the_row_that_met_the_stop() -> None:
    loaded = reciting_loaded("\n22 pears<|im_end|>.")
    paper, reference = Cipher(), Cipher(compat="reference")

    kept, left = [each.record_reply(loaded.engine.run(lower(loaded, each, 0.5)), loaded) for each in (reference, paper)]

    assert (kept.label.text, left.label.text) == ("22 pears<|im_end|>", "22 pears")
    rows = kept.rows(loaded.table.key)
    assert rows is not None and len(rows) == len(kept) == len(left) + 1


def test_the_reference_stops_at_the_tokenizers_end_alone() -> None:
    loaded = tiny_loaded()
    assert lower(loaded, Cipher()).stop.ids == loaded.stop_ids == (2, 0)
    assert lower(loaded, Cipher(compat="reference")).stop.ids == (2,)


def test_cipher_applies_no_processor_but_the_temperature_and_says_what_it_ignores() -> None:
    loaded = tiny_loaded()
    plain = lower(loaded, Cipher(), 0.8)
    changed = dict(zip(Cipher.ignores, (0.1, 1, 2.0), strict=True))
    cut = replace(plain, sampling=Sampling(0.8, seed=5, **changed))  # type: ignore[arg-type]  # its fields, by name

    found, expected = loaded.engine.run(cut), loaded.engine.run(plain)

    assert torch.equal(found.rows[loaded.table.key], expected.rows[loaded.table.key])


# Partial CIPHER


def means(weights: Weights, temperature: float = 1.0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Averaging weights, the whole distribution, and the greedy one."""
    p = distribution(LOGITS, Temperatures([temperature] * len(LOGITS), LOGITS.device))
    return weights(LOGITS, p), p, distribution(LOGITS, Temperatures([0.0] * len(LOGITS), LOGITS.device))


@pytest.mark.parametrize(
    ("criterion", "everything", "nothing"),
    [("entropy", 0.0, 99.0), ("entropy_reversed", 99.0, 0.0), ("max", 1.0, 0.0), ("max_reversed", 0.0, 1.0)],
)
def test_the_threshold_goes_from_full_cipher_to_greedy(criterion: Partial, everything: float, nothing: float) -> None:
    full, p, greedy = means(Weights(criterion, everything))
    none, _, _ = means(Weights(criterion, nothing))
    assert torch.equal(full, p) and torch.equal(none, greedy)


@pytest.mark.parametrize(("criterion", "threshold"), [("entropy", 1.0), ("max", 0.6)])
@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_a_criterion_and_its_reverse_are_complements(criterion: Partial, threshold: float, temperature: float) -> None:
    found, p, greedy = means(Weights(criterion, threshold), temperature)
    reversed_criterion: Partial = "entropy_reversed" if criterion == "entropy" else "max_reversed"
    other, _, _ = means(Weights(reversed_criterion, threshold), temperature)

    averaged = (found == p).all(-1)
    assert 0 < averaged.sum() < len(averaged)
    assert torch.equal(other, torch.where(averaged[:, None], greedy, p))


def test_the_criterion_is_taken_at_temperature_one_unless_told_otherwise() -> None:
    logits = torch.tensor([[2.0, 0.0, 0.0, 0.0]])  # largest probability .71 at T = 1, .46 at T = 2
    p = (logits / 2).softmax(-1)

    assert Weights("max", 0.6)(logits, p).tolist() == [[1, 0, 0, 0]]
    assert Weights("max", 0.6, at="generation")(logits, p).tolist() == p.tolist()


def test_the_reference_marks_what_reaches_the_level_instead_of_one_token() -> None:
    by_max, by_entropy = Weights("max", 0.3, true_one_hot=False), Weights("entropy", 9.0, true_one_hot=False)
    logits = torch.tensor([[2.0, 1.9, 0.0]])  # largest probability .51, entropy .92 nats at T = 1
    hot, cold = (logits / 3).softmax(-1), (logits / 0.1).softmax(-1)

    assert by_max(logits, hot).tolist() == [[0, 0, 0]]  # T > 1: nothing reaches the largest p at T = 1
    assert by_max(logits, cold).tolist() == [[1, 0, 0]]
    assert by_entropy(logits, hot).tolist() == [[0, 0, 0]]  # compares a probability with an entropy


@each_row(
    ("criterion", "compat", "averages"),
    [
        ("max", "paper", True),
        ("max", "reference", False),  # the published code: `criteria >= thr` is greedy
        ("max_reversed", "paper", False),
        ("max_reversed", "reference", True),
        ("entropy", "paper", True),
        ("entropy", "reference", True),
        ("entropy_reversed", "reference", False),
    ],
)
def test_a_level_equal_to_the_threshold_follows_the_published_code_under_reference(
    criterion: Partial, compat: CompatName, averages: bool
) -> None:
    logits = torch.tensor([[3.0, 1.0, 0.0]])
    p = logits.softmax(-1)
    level = p.max() if criterion.startswith("max") else -(p * p.log()).sum()
    weigh = lower(tiny_loaded(), Cipher(compat=compat, partial=criterion, threshold=level.item())).feed.weigh
    assert isinstance(weigh, Weights)

    assert torch.equal(weigh(logits, p), p) == averages


def test_several_ones_of_the_references_mask_are_averaged_and_told_as_the_nearest_token() -> None:
    loaded = tiny_loaded()
    masked = Cipher(compat="reference", partial="max", threshold=0.0)  # every p exceeds 0: it never averages
    reply = loaded.engine.run(lower(loaded, masked, 0.3))
    table, rows = loaded.table, reply.rows[loaded.table.key]
    assert reply.sparse is not None
    several = [i for i, weights in enumerate(reply.sparse.weights) if 1 < (weights == 1).sum() < len(weights)]

    assert any(table.nearest(rows[i : i + 1]).item() != reply.sparse.ids[i].min() for i in several)
    for i in several:
        marked = reply.sparse.ids[i][reply.sparse.weights[i] == 1]
        assert close(rows[i], table.rows[marked].sum(0))
        assert reply.ids[i] == table.nearest(rows[i : i + 1]).item()


@pytest.mark.parametrize("criterion", ["max", "max_reversed"])
def test_partial_cipher_says_table_rows_where_it_does_not_average(criterion: Partial) -> None:
    loaded, protocol = tiny_loaded(), Cipher(partial=criterion, threshold=0.06)
    request = lower(loaded, protocol, 1.0, max_new=10)
    reply = loaded.engine.run(replace(request, stop=replace(request.stop, ids=())))

    assert reply.stats is not None
    uncertain = reply.stats.top_logprobs[:, 0].exp() <= 0.06
    averaged = (reply.rows[loaded.table.key] != loaded.table.rows[list(reply.ids)]).any(-1)
    assert 0 < uncertain.sum() < 10
    assert torch.equal(averaged, uncertain if criterion == "max" else ~uncertain)


# Between two models


def test_a_hearer_with_a_wider_table_gets_the_means_in_its_own_space(store: PayloadStore) -> None:
    speaker, hearer = tiny_loaded(), tiny_loaded("llama", hidden_size=48)
    message = say(Cipher(), speaker, store, sampling=Sampling(0.8), max_new=3, hearers=(hearer, speaker, hearer))
    payload = payload_of(message, store)

    own, others = payload.rows(speaker.table.key), payload.rows(hearer.table.key)
    heard = rows_in(hear(Cipher(), hearer, store, MessageRef(message)))

    assert own is not None and others is not None
    assert own.shape == (3, 32) and others.shape == (3, 48)
    assert torch.equal(heard, others)
    sizes = [Cipher().heard_bytes(MessageRef(message), each, lambda ref: ref.load(store)) for each in (speaker, hearer)]
    assert sizes == [3 * 32 * 4, 3 * 48 * 4] and payload.carried_bytes == sum(sizes)  # the message has both
    assert len(hearer.engine.run(hear(Cipher(), hearer, store, MessageRef(message))).ids) == 8


def test_the_sparse_form_is_scaled_up_to_a_whole_mean(store: PayloadStore) -> None:
    speaker, hearer = tiny_loaded(), tiny_loaded("llama", hidden_size=48)
    message = say(Cipher(), speaker, store, sampling=Sampling(1.0), max_new=1)
    tensors = payload_of(message, store).tensors
    weights, kept = tensors["sparse.weights"][0], tensors["sparse.ids"][0]

    heard = rows_in(hear(Cipher(), hearer, store, MessageRef(message)))

    assert len(kept) == 16 and weights.sum() < 0.9
    assert close(heard[0], (weights / weights.sum()) @ hearer.table.rows[kept])


def test_receivers_of_another_vocabulary_are_left_out_and_refused_by_name() -> None:
    speaker, other = tiny_loaded(), assemble("longer", tiny_model(vocab_size=VOCABULARY + 1), longer_tokenizer())
    assert lower(speaker, Cipher(), hearers=(other,)).feed.tables == ()
    with pytest.raises(
        ProtocolError, match=r"cipher needs one vocabulary, but 'qwen2-0' \(300 tokens\) and 'longer' \(301 tokens\)"
    ):
        Cipher().check(speaker, other)
