"""Keys and values that one sequence hands to another, and latent steps: exact against plain passes of transformers."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from transformers import DynamicCache

from sottovoce.core.any_types import Untyped
from sottovoce.core.errors import ContextOverflow, EngineError, UsageError
from sottovoce.models import (
    Cached,
    Ids,
    KeysValues,
    LoadedModel,
    Record,
    Reply,
    Request,
    Rows,
    Stop,
    Thinking,
    assemble,
)
from sottovoce.models.engine.runner import next_thoughts
from sottovoce.models.huggingface.family import cache_argument
from tests.models.support import fresh, reads_as_plain, together, words
from tests.support import GREEDY, HIDDEN, close, edit, ids, noise, request, tiny_loaded, tiny_model, tiny_tokenizer

ROTARY = ("llama", "qwen2", "qwen3", "falcon", "gpt_neox", "granite", "mistral", "olmo2", "phi3", "stablelm")
"""The families of the table whose keys are rotated."""
OTHERS = {"cohere": {"logit_scale": 1.0}, "glm": {"head_dim": 8, "partial_rotary_factor": 0.5}}
"""Families whose neighboring coordinates turn together, of a whole or a half head."""
A, B, Q = words(9, 1), words(7, 2), words(5, 3)
SILENT = Stop(0)
ALL = Record(stats=True, top=300)


def of(family: str, **options: object) -> LoadedModel:
    return tiny_loaded(family, seed=3, sharp=0.15, **{**OTHERS.get(family, {}), **options})


def read(loaded: LoadedModel, *pieces: Ids | Rows | Cached, origins: tuple[str, ...] = ("prompt",)) -> KeysValues:
    """The keys and values of what a silent agent read."""
    reply = loaded.engine.run(Request(pieces, SILENT, record=Record(cache=origins)))  # type: ignore[arg-type]
    assert reply.cache is not None and reply.ids == () and reply.finish == "stop"
    return reply.cache


def piece(cache: KeysValues, layers: tuple[int, ...] = (0, 1), *, turned: bool = True) -> Cached:
    """Keys and values as a piece of a prompt; of layers left out only the first position."""
    rest = [layer for layer in range(len(cache.keys)) if layer not in layers]
    chosen = list(layers)
    first = cache.keys[rest, :, :1], cache.values[rest, :, :1]
    return Cached(cache.keys[chosen], cache.values[chosen], layers, cache.at, *first, turned)


def asked(*pieces: Ids | Rows | Cached, max_new: int = 6) -> Request:
    return Request(pieces, Stop(max_new), sampling=GREEDY, record=ALL)


def alike(found: Reply, expected: Reply, within: float = 1e-4) -> bool:
    assert found.stats is not None and expected.stats is not None
    return found.ids == expected.ids and close(found.stats.logprob, expected.stats.logprob, within)


@pytest.mark.parametrize("family", [*ROTARY, *OTHERS])
def test_one_sender_in_front_is_one_sequence_of_both_prompts_and_its_keys_can_be_moved(family: str) -> None:
    loaded, lead = of(family), Ids(tuple(range(3, 14)))
    cache = read(loaded, A)
    found = loaded.engine.run(asked(piece(cache), Q))
    whole = asked(A, Q)
    expected = loaded.engine.run(whole)
    assert alike(found, expected)
    assert reads_as_plain(loaded, whole, found)
    assert (found.usage.prompt, found.usage.reused) == (14, 9)
    turned = loaded.network.rotary.turn(cache.keys, range(len(cache.keys)), torch.full((9,), 11))
    # The first layer's keys depend on token and position alone.
    assert close(turned[0], read(loaded, lead, A).keys[0][:, 11:], 1e-5)
    back = loaded.network.rotary.turn(turned, range(len(cache.keys)), torch.full((9,), -11))
    assert close(back, cache.keys, 1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_hands_over_too(dtype: torch.dtype) -> None:
    model = tiny_model("llama", seed=3, sharp=0.15)
    loaded = assemble("half", model.bfloat16() if dtype == torch.bfloat16 else model.half(), tiny_tokenizer())
    assert all(turn and turn.style == "halves" for turn in loaded.network.rotary.turns)
    cache = read(loaded, A)
    moved = loaded.engine.run(asked(B, piece(cache), Q, max_new=1))
    assert cache.keys.dtype == dtype and moved.usage.reused == 9


def test_several_senders_stand_one_after_the_other_blind_to_each_other() -> None:
    loaded = of("llama")
    first, second = read(loaded, A), read(loaded, B)
    found = loaded.engine.run(asked(piece(first), piece(second), Q, max_new=1))
    positions = torch.tensor([[*range(9), *range(9, 16), *range(16, 21)]])
    seen = torch.ones(21, 21).tril().bool()
    seen[9:16, :9] = False  # what each could not see of the other
    with torch.inference_mode():
        whole = torch.tensor([[*A.ids, *B.ids, *Q.ids]])
        expected = loaded.model(whole, attention_mask=seen[None, None], position_ids=positions).logits[0, -1]
    assert found.stats is not None
    assert close(found.stats.top_logprobs[0], expected.log_softmax(-1)[found.stats.top_ids[0]], 1e-4)
    unturned = loaded.engine.run(asked(piece(first, turned=False), piece(second, turned=False), Q, max_new=1))
    positions[0, 9:16] = torch.arange(7)  # both count from 0, as in the published code
    with torch.inference_mode():
        expected = loaded.model(whole, attention_mask=seen[None, None], position_ids=positions).logits[0, -1]
    assert unturned.stats is not None
    assert close(unturned.stats.top_logprobs[0], expected.log_softmax(-1)[unturned.stats.top_ids[0]], 1e-4)


def test_a_piece_stands_anywhere_in_a_prompt() -> None:
    """In the first layer, where keys see no other position, it is what reading it there is."""
    loaded = assemble("one layer", tiny_model("llama", num_hidden_layers=1), tiny_tokenizer())
    found = loaded.engine.run(asked(B, piece(read(loaded, A), (0,)), Q))
    assert alike(found, loaded.engine.run(asked(B, A, Q)))


@pytest.mark.parametrize("family", ["llama", "gemma3_text"])  # Gemma takes a mask for each kind of layer
def test_a_layer_left_out_sees_the_first_position_alone(family: str) -> None:
    loaded = of(family, sliding_window=512)
    cache = read(loaded, A)
    found = loaded.engine.run(asked(piece(cache, (1,)), Q, max_new=1))
    past = DynamicCache()
    for layer in (0, 1):
        past.update(cache.keys[None, layer], cache.values[None, layer], layer)
    seen = torch.ones(5, 14).tril(9).bool()
    hidden = seen.clone()
    hidden[:, 1:9] = False
    layers = loaded.network.layers
    handle = layers[0].register_forward_pre_hook(
        lambda _, inputs, named: (inputs, {**named, "attention_mask": hidden[None, None]}), with_kwargs=True
    )
    with torch.inference_mode():
        inputs = torch.tensor([Q.ids])
        positions = torch.arange(9, 14)[None]
        mask = seen[None, None]
        output = loaded.model(
            inputs, attention_mask=mask, position_ids=positions, **{cache_argument(loaded.model): past}
        )
    handle.remove()
    assert found.stats is not None
    assert close(found.stats.top_logprobs[0], output.logits[0, -1].log_softmax(-1)[found.stats.top_ids[0]], 1e-4)


def test_a_row_does_not_depend_on_its_company() -> None:
    loaded = of("llama")
    cache, thinks = read(loaded, A), Thinking(3, 1.0)
    requests = [
        asked(piece(cache), Q),
        asked(piece(cache, (1,)), B, piece(cache, (0,)), Q),
        asked(B, Q),
        asked(Rows(noise(4, HIDDEN)), piece(cache), Q),
        replace(asked(piece(cache), Q), thinking=thinks, record=replace(ALL, cache=("thoughts", "words"))),
        Request((B,), SILENT, thinking=thinks, record=Record(cache=("prompt",))),
    ]
    alone = [fresh_of(loaded).engine.run(each) for each in requests]
    for found, expected in zip(together(loaded.engine, requests), alone, strict=True):
        if expected.stats is not None and expected.ids:
            assert alike(found, expected, 2e-5)
        if expected.cache is not None and found.cache is not None:
            assert close(found.cache.keys, expected.cache.keys)


def test_one_pass_reads_around_the_pieces_and_gives_what_a_pass_for_each_gap_does() -> None:
    loaded, exact = of("llama"), fresh_of(of("llama"), exact=True)
    cache, lead = read(loaded, A), Rows(noise(4, HIDDEN))
    prompt = asked(lead, piece(cache), B, piece(cache), piece(cache), Q)
    for edits in ((), (edit(0, 1, 30, seed=5), replace(edit(1, 14, 5), how="replace"))):
        found, expected = (each.engine.run(replace(prompt, edits=edits)) for each in (fresh_of(loaded), exact))
        assert alike(found, expected) and found.usage.reused == 27
    alone = fresh_of(loaded)
    alone.engine.run(prompt)
    assert (alone.engine.statistics.passes, exact.engine.statistics.passes) == (1, 6)
    assert alone.engine.statistics.reused == 27


def fresh_of(loaded: LoadedModel, **options: bool) -> LoadedModel:
    return assemble("again", loaded.model, tiny_tokenizer(), **options)  # type: ignore[arg-type]


def test_an_exact_engine_gives_equal_bits_with_and_without_a_known_beginning() -> None:
    loaded = fresh_of(of("llama"), exact=True)
    cache = read(loaded, words(70, 5))
    requests = [asked(words(30, 6), piece(cache), words(90, seed)) for seed in (7, 8, 9)]
    once = [fresh_of(of("llama"), exact=True).engine.run(each) for each in requests]
    for found, expected in zip(
        [*together(loaded.engine, requests), loaded.engine.run(requests[0])], [*once, once[0]], strict=True
    ):
        assert found.ids == expected.ids and found.stats is not None and expected.stats is not None
        assert torch.equal(found.stats.logprob, expected.stats.logprob)


def test_what_stands_behind_a_piece_is_read_once() -> None:
    loaded = fresh("llama")
    cache = read(loaded, A)
    first = loaded.engine.run(asked(piece(cache), B, Q))
    second = loaded.engine.run(asked(piece(cache), B, Q))
    other = loaded.engine.run(asked(piece(read(loaded, words(9, 9))), B, Q))
    part = loaded.engine.run(asked(piece(cache, (0,)), B, Q))
    assert (first.usage.reused, second.usage.reused, other.usage.reused, part.usage.reused) == (9, 20, 9, 9)
    assert alike(second, first)


def test_latent_steps_are_those_of_a_plain_loop() -> None:
    loaded = fresh("llama", {"tie_word_embeddings": False})
    matrix, norm = noise(HIDDEN, HIDDEN, seed=4), 0.7
    for thinking in (Thinking(4, norm), Thinking(4, norm, matrix)):
        recorded = replace(ALL, cache=("prompt", "thoughts", "words"))
        found = loaded.engine.run(replace(asked(A), thinking=thinking, record=recorded))
        past, inputs = DynamicCache(), loaded.table.rows[list(A.ids)][None]
        thoughts: list[torch.Tensor] = []
        with torch.inference_mode():
            for step in range(5):
                out = loaded.model(
                    inputs_embeds=inputs,
                    **{cache_argument(loaded.model): past},
                    output_hidden_states=True,
                    use_cache=True,
                )
                if step < 4:
                    thoughts.append(next_thoughts(out.hidden_states[-1][:, -1], [thinking])[0])
                    inputs = thoughts[-1][None, None]
        assert found.thoughts is not None and found.cache is not None and found.stats is not None
        assert close(found.thoughts, torch.stack(thoughts), 1e-4)
        assert torch.allclose(found.thoughts.norm(dim=-1), torch.tensor(norm))
        expected = out.logits[0, -1].log_softmax(-1)
        assert close(found.stats.top_logprobs[0], expected[found.stats.top_ids[0]], 1e-4)
        assert found.cache.at.tolist() == [*range(9 + 4 + 6)]
        kept: list[Untyped] = list(past.layers)
        assert close(found.cache.keys[:, :, : 9 + 4], torch.stack([layer.keys[0] for layer in kept]), 1e-4)


def test_each_row_of_a_batch_thinks_by_its_own_matrix_and_norm() -> None:
    matrices = (None, noise(HIDDEN, HIDDEN, seed=4), noise(HIDDEN, HIDDEN, seed=5))
    thinking = [Thinking(1, 0.5 + i, matrices[at]) for i, at in enumerate((1, 0, 2, 1, 0))]
    states = noise(len(thinking), HIDDEN)

    together = next_thoughts(states, thinking, at_least=8)

    for state, own, found in zip(states, thinking, together, strict=True):
        direction = state if own.matrix is None else state @ own.matrix
        assert close(found, own.norm * direction / direction.norm(), 1e-5)


def test_thoughts_are_found_again_by_a_prompt_that_continues_them() -> None:
    loaded = fresh("llama")
    said = loaded.engine.run(replace(asked(A, max_new=3), thinking=Thinking(2, 1.0)))
    assert said.thoughts is not None
    longer = loaded.engine.run(asked(A, Rows(said.thoughts), Ids(said.ids), Q))
    assert longer.usage.reused == 9 + 2 + 2  # the last token was not read


def test_requests_that_do_not_fit_are_refused_in_one_line() -> None:
    loaded = of("llama")
    cache = read(loaded, A)
    with pytest.raises(UsageError, match="the prompt ends with keys and values"):
        loaded.engine.run(asked(Q, piece(cache)))
    with pytest.raises(UsageError, match="keys and values of layers"):
        loaded.engine.run(asked(replace(piece(cache), keys=cache.keys[:, :, :, :4]), Q))
    with pytest.raises(UsageError, match="max_new is 0"):
        loaded.engine.run(request(max_new=0))
    with pytest.raises(ContextOverflow, match="its latent steps 900"):
        loaded.engine.run(replace(asked(Q), thinking=Thinking(900, 1.0)))
    assert ids("Hi")


def test_weights_with_nan_are_named_before_their_keys_are_measured() -> None:
    """Seen: kv called the model one without positions."""
    loaded = fresh("llama")
    with torch.no_grad():
        loaded.model.get_parameter("model.layers.0.input_layernorm.weight")[0] = torch.nan
    with pytest.raises(EngineError, match=r"keys of one token were not finite \(NaN\); check the weights"):
        loaded.network.check_handing_over()
