"""What the one decoding loop promises, each against a slow and obvious witness; test_families.py has it by family."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from transformers import PreTrainedModel

from sottovoce.models import Edit, Feed, Ids, LoadedModel, Record, Reply, Request, Sampling, Stop, Table, assemble
from sottovoce.models.huggingface.layers import hooked
from tests.models.support import generate
from tests.support import (
    HIDDEN,
    VOCABULARY,
    close,
    edit,
    ids,
    noise,
    prompt_ids,
    reciting_loaded,
    request,
    text,
    tiny_loaded,
    tiny_model,
    tiny_tokenizer,
)

EVERYTHING = Record(layers=(0, 1), stats=True, top=3)
MEAN = Feed("mean")

Matrix = torch.Tensor


def logits_of(model: PreTrainedModel, **inputs: torch.Tensor) -> torch.Tensor:
    """Logits (V,) at the last position of a plain forward pass."""
    with torch.inference_mode():
        logits: torch.Tensor = model(**inputs).logits
    return logits[0, -1].float()


# Tokens


@pytest.mark.parametrize("penalty", [1.05, 0.9])
def test_greedy_with_a_repetition_penalty_is_what_transformers_generates(penalty: float) -> None:
    loaded = tiny_loaded()
    asked = request((Ids(tuple(range(3, 200))),), 30)  # a prompt of most tokens: the penalty counts it too
    penalised = replace(asked, sampling=Sampling(repetition_penalty=penalty))

    found = loaded.engine.run(penalised).ids

    assert found == generate(loaded, asked, repetition_penalty=penalty)
    assert found != loaded.engine.run(asked).ids


def test_the_tokens_of_a_reply_are_drawn_by_the_uniforms_of_its_seed_from_the_first_on() -> None:
    """A draw by the uniform of another position is as random; only the replies of known seeds change."""
    sampling, record = Sampling(1.0, seed=3), Record(stats=True, top=VOCABULARY)
    reply = tiny_loaded(sharp=0.1).engine.run(request(max_new=20, sampling=sampling, record=record))
    assert reply.stats is not None
    uniforms = torch.rand(20, generator=torch.Generator().manual_seed(3), dtype=torch.float64)

    p = torch.zeros_like(reply.stats.top_logprobs).scatter(1, reply.stats.top_ids, reply.stats.top_logprobs.exp())
    said = torch.tensor(reply.ids)[:, None]
    end, mass = (each.gather(1, said)[:, 0] for each in (p.double().cumsum(-1), p.double()))

    assert ((end - mass - 1e-5 < uniforms) & (uniforms < end + 1e-5)).all()  # 1e-5: sums of float32 probabilities


def test_tokens_beyond_the_tokenizer_are_never_said() -> None:
    padded = tiny_model(vocab_size=VOCABULARY + 20)
    head = padded.get_output_embeddings().weight
    assert isinstance(head, torch.Tensor)
    head.data[VOCABULARY:] = 50 * noise(20, HIDDEN)  # so that one of them has by far the largest logit
    asked, loaded = request(max_new=12), assemble("padded", padded, tiny_tokenizer())

    assert max(generate(loaded, asked)) >= VOCABULARY
    assert max(loaded.engine.run(asked).ids) < VOCABULARY
    assert max(loaded.engine.run(replace(asked, feed=MEAN, sampling=Sampling(1.0))).ids) < VOCABULARY


# Latent pieces, states and edits


def test_an_edit_acts_in_the_prefill_alone() -> None:
    loaded = tiny_loaded()
    asked = request(edits=(edit(0, 2, 4),))
    n = asked.length

    def once(hidden: torch.Tensor) -> torch.Tensor:
        hidden = hidden.clone()
        if hidden.shape[1] == n:
            hidden[0, 2:6] += asked.edits[0].delta
        return hidden

    with hooked(loaded.network.layers, {0: once}):
        expected = generate(loaded, asked)

    assert loaded.engine.run(asked).ids == expected != loaded.engine.run(replace(asked, edits=())).ids


def test_an_edit_reaches_its_layer_and_those_above_from_its_position_on() -> None:
    engine, n = tiny_loaded().engine.twin(reuse=False), request().length
    recorded = request(max_new=1, record=Record((0, 1)))

    plain = engine.run(recorded).states
    low = engine.run(replace(recorded, edits=(edit(0, 0, 2),))).states
    here = engine.run(replace(recorded, edits=(edit(0, n - 1, 1),))).states

    assert torch.equal(low[0][0], plain[0][0])  # the edit stands before the recorded position, at its layer
    assert not close(low[1][0], plain[1][0])
    assert close(here[0][0], plain[0][0] + edit(0, n - 1, 1).delta[0])


def test_zero_deltas_change_nothing_to_the_bit() -> None:
    engine, asked = tiny_loaded().engine.twin(reuse=False), request(record=EVERYTHING)
    zero = tuple(Edit(layer, 1, torch.zeros(5, HIDDEN)) for layer in (0, 1))

    found, expected = engine.run(replace(asked, edits=zero)), engine.run(asked)

    assert found.ids == expected.ids
    assert all(torch.equal(found.states[layer], expected.states[layer]) for layer in (0, 1))


# Means of embeddings


@pytest.mark.parametrize("temperature", [0.5, 3.0])
def test_a_mean_is_the_softmax_over_the_table_computed_by_hand(temperature: float) -> None:
    loaded = tiny_loaded()
    asked = request(max_new=3, feed=MEAN, sampling=Sampling(temperature))
    inputs = loaded.table.rows[torch.tensor([prompt_ids(asked)])]  # (1, n, E)
    for _ in range(3):  # few steps: feedback amplifies float32 noise
        p = (logits_of(loaded.model, inputs_embeds=inputs) / temperature).softmax(-1)
        inputs = torch.cat([inputs, (p @ loaded.table.rows)[None, None]], 1)

    found = loaded.engine.run(asked).rows[loaded.table.key]

    assert close(found, inputs[0, -3:], relative=1e-4)  # three steps of feedback


def test_neighbours_with_other_tables_and_weights_do_not_mix() -> None:
    loaded, wide = tiny_loaded(), Table(noise(VOCABULARY, 48))
    flat = Feed("mean", lambda logits, p: torch.full_like(p, 1 / VOCABULARY))
    asked = [
        request(max_new=1, feed=feed, sampling=Sampling(1.0)) for feed in (MEAN, flat, Feed("mean", tables=(wide,)))
    ]

    p = logits_of(loaded.model, input_ids=torch.tensor([prompt_ids(asked[0])])).softmax(-1)

    plain, averaged, both = loaded.engine.run_all(asked)

    assert close(averaged.rows[loaded.table.key][0], loaded.table.rows.mean(0))
    assert close(both.rows[loaded.table.key], plain.rows[loaded.table.key])
    assert close(both.rows[wide.key][0], p @ wide.rows)
    assert [set(reply.rows) for reply in (plain, averaged)] == [{loaded.table.key}] * 2


def test_a_sure_token_keeps_its_id_where_rows_are_equal() -> None:
    said = tiny_loaded().engine.run(request(max_new=6)).ids
    largest, (twin, *_) = max(said), sorted(set(range(3, max(said))) - {*said, *ids("What is 14 + 3?")})
    model = tiny_model()
    table = model.get_input_embeddings().weight
    assert isinstance(table, torch.Tensor)
    table.data[twin] = table.data[largest]  # an equal row with a smaller id, which nobody reads
    loaded = assemble("twins", model, tiny_tokenizer())

    assert loaded.table.nearest(loaded.table.rows[[largest]]).tolist() == [twin]
    assert loaded.engine.run(request(max_new=6, feed=MEAN)).ids == said


@pytest.mark.parametrize("others", [0, 1, 2])
def test_one_weight_keeps_its_token_and_several_feed_the_nearest_to_their_mean(others: int) -> None:
    """A mask that allows several tokens of weight 1 was read as one-hot: its first token was fed back."""
    loaded, allowed = tiny_loaded(), (200, 7, 90)[: others + 1]

    def mask(_logits: Matrix, p: Matrix) -> Matrix:
        weights = torch.zeros_like(p)
        weights[:, list(allowed)] = 1.0
        return weights

    reply = loaded.engine.run(request(max_new=1, feed=Feed("mean", mask)))
    mean = loaded.table.rows[list(allowed)].sum(0)

    assert close(reply.rows[loaded.table.key][0], mean)
    assert reply.ids == (int(loaded.table.nearest(mean[None])) if others else 200,)


# Ends


def ended(max_new: int = 30, feed: Feed = Feed(), **stop: object) -> Reply:  # noqa: B008  # frozen
    """What a loaded model that recites says after a 0, with states and statistics recorded."""
    asked = request("0", feed=feed, stop=Stop(max_new, **stop), record=EVERYTHING)  # type: ignore[arg-type]
    return reciting_loaded("0 answer is 22 pears.").engine.run(asked)


def consistent(reply: Reply) -> bool:
    """Rows, states and statistics end where the ids end."""
    assert reply.stats is not None
    n = len(reply.ids)
    lengths = {len(each) for each in (*reply.rows.values(), reply.stats.logprob, reply.stats.top_ids)}
    return lengths <= {n} and {len(states) for states in reply.states.values()} == {n + 1} and reply.usage.new == n


@pytest.mark.parametrize("feed", [Feed(), MEAN], ids=["token", "mean"])
@pytest.mark.parametrize(
    ("stops", "said", "finish"),
    [
        ((), " answer is 22 pears.0 answer is", "length"),
        (("never",), " answer is 22 pears.0 answer is", "length"),
        (("pear",), " answer is 22 ", "stop_text"),
        (("ears",), " answer is 22 ", "stop_text"),  # inside a token: the whole token goes
        (("s.",), " answer is 22 pear", "stop_text"),  # over the edge of two
        (("er is",), "", "stop_text"),  # over an edge, in the first token
        ((" 22", "wer"), "", "stop_text"),  # the earliest in the text, not in the list
        (("2 p",), " answer is", "stop_text"),
        ((" answer",), "", "stop_text"),
    ],
)
def test_a_reply_ends_before_the_tokens_of_a_stop_string(
    stops: tuple[str, ...], said: str, finish: str, feed: Feed
) -> None:
    reply = ended(10, feed, texts=stops)
    assert (text(reply.ids), reply.finish) == (said, finish)
    assert consistent(reply)


@pytest.mark.parametrize("feed", [Feed(), MEAN], ids=["token", "mean"])
@pytest.mark.parametrize(("stop", "said"), [(" answer", ""), (" is", " answer"), (".", " answer is 22 pears")])
def test_a_reply_ends_before_a_stop_id(stop: str, said: str, feed: Feed) -> None:
    reply = ended(10, feed, ids=(2, *ids(stop)))
    assert (text(reply.ids), reply.finish) == (said, "stop")
    assert consistent(reply)


def test_the_last_recorded_state_is_that_of_the_last_kept_token() -> None:
    cut, whole = ended(texts=("s.",)), ended(9)
    n = len(cut.ids)
    for layer in (0, 1):
        assert torch.equal(cut.states[layer], whole.states[layer][: n + 1])


def always(id: int) -> Feed:
    """Averages nothing: each row is that of one token, whatever the model says."""
    return Feed("mean", lambda logits, p: nn.functional.one_hot(torch.tensor([id] * len(p)), p.shape[-1]).to(p))


def test_special_tokens_are_text_only_where_asked_for() -> None:
    eos = always(2)
    assert ended(3, eos, texts=("<|im_end|>",), special=True).finish == "stop_text"
    assert ended(3, eos, texts=("<|im_end|>",)).finish == "length"


# What a listener sees while a reply is made


def shown(loaded: LoadedModel, asked: Request) -> tuple[list[str], str]:
    """What was shown, and the text of the reply."""
    seen: list[str] = []
    reply = loaded.engine.submit(asked, seen.append).result()
    return seen, text(reply.ids)


@pytest.mark.parametrize("stop", ["34", "3456", "9", "45x", "s.", "er is", "2 p", "ears", "answer is 23", "."])
@pytest.mark.parametrize("recited", ["0123456789", "0 answer is 22 pears.A"])
def test_nothing_is_shown_that_a_stop_string_takes_back(stop: str, recited: str) -> None:
    seen, said = shown(reciting_loaded(recited), request("0", stop=Stop(9, texts=(stop,))))
    assert all(said.startswith(part) for part in seen)
    assert (seen or [""])[-1] == said
