from __future__ import annotations

import pytest
import torch

from sottovoce.channels.message import MessageRef
from sottovoce.channels.sde import SDE, Hidden
from sottovoce.channels.store import PayloadStore
from sottovoce.core.errors import ProtocolError
from sottovoce.models import LoadedModel, assemble
from tests.support import (
    HIDDEN,
    close,
    hear,
    longer_tokenizer,
    payload_of,
    prompt_ids,
    say,
    tiny_loaded,
    tiny_model,
    tiny_tokenizer,
)

LOADED = tiny_loaded(num_hidden_layers=3)


def hidden_states(loaded: LoadedModel, prompt: str, said: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
    """Of a plain forward pass, from the last position of the prompt on: (n + 1, H), the embeddings first."""
    chat = loaded.tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt}], add_generation_prompt=True, return_dict=False
    )
    with torch.inference_mode():
        states = loaded.model(torch.tensor([[*chat, *said]]), output_hidden_states=True).hidden_states
    return tuple(state[0, len(chat) - 1 :] for state in states)


# Not the last layer: transformers gives it after the final norm.
@pytest.mark.parametrize(("family", "layers"), [("qwen2", (0, 1)), ("llama", (0,)), ("gemma2", (1,))])
def test_deltas_are_differences_of_the_hidden_states_of_a_plain_forward_pass(
    store: PayloadStore, family: str, layers: tuple[int, ...]
) -> None:
    loaded = tiny_loaded(family, num_hidden_layers=3)
    payload = payload_of(say(SDE(layers=layers), loaded, store), store)
    states = hidden_states(loaded, "What is 14 + 3?", payload.ids)

    assert payload.label.layers == layers
    assert payload.states is not None and payload.states.shape == (len(layers), 8, HIDDEN)
    assert close(payload.states, torch.stack([states[layer + 1].diff(dim=0) for layer in layers]))


def test_the_reference_takes_the_last_layer_after_the_final_norm(store: PayloadStore) -> None:
    reference = payload_of(say(SDE(layers=(0, 2), compat="reference"), LOADED, store), store)
    states = hidden_states(LOADED, "What is 14 + 3?", reference.ids)
    paper = payload_of(say(SDE(layers=(0, 2)), LOADED, store), store)

    assert reference.states is not None and paper.states is not None
    assert close(reference.states, torch.stack([states[1].diff(dim=0), states[3].diff(dim=0)]))
    assert not close(paper.states[1], reference.states[1])


def test_hidden_carries_the_states_themselves(store: PayloadStore) -> None:
    payload = payload_of(say(Hidden(layers=(0, 1)), LOADED, store), store)
    states = hidden_states(LOADED, "What is 14 + 3?", payload.ids)

    assert payload.states is not None and payload.label.protocol == "hidden"
    assert close(payload.states, torch.stack([states[1][1:], states[2][1:]]))


@pytest.mark.parametrize("kind", [SDE, Hidden])
def test_states_are_added_with_the_strength_that_was_set(store: PayloadStore, kind: type[SDE]) -> None:
    message = say(kind(layers=(1,)), LOADED, store)
    (whole,) = hear(kind(), LOADED, store, MessageRef(message)).edits
    (half,) = hear(kind(strength=0.5), LOADED, store, MessageRef(message)).edits

    assert torch.equal(half.delta, whole.delta / 2) and (half.layer, half.at) == (whole.layer, whole.at)


def test_older_messages_carry_their_states_only_where_all_are_injected(store: PayloadStore) -> None:
    older, newer = say(SDE(), LOADED, store), say(SDE(), LOADED, store, prompt="Why?")
    heard = MessageRef(older, latest=False), "\nand\n", MessageRef(newer)

    latest, everything = [hear(SDE(inject=inject), LOADED, store, *heard) for inject in ("latest", "all")]

    assert [len(request.edits) for request in (latest, everything)] == [1, 2]
    assert latest.edits[0].at == everything.edits[1].at > everything.edits[0].at
    assert prompt_ids(latest) == prompt_ids(everything)


def test_states_are_kept_in_the_models_dtype_and_taken_apart_in_float32(store: PayloadStore) -> None:
    half = assemble("half", tiny_model().bfloat16(), tiny_tokenizer())
    states = half.engine.run(hear(SDE(layers=(0,)), half, store)).states[0]

    payload = payload_of(say(SDE(layers=(0,)), half, store), store)
    encoded = SDE(layers=(0,))._encode(states[None])

    assert payload.states is not None and payload.states.dtype == torch.bfloat16
    assert torch.equal(encoded[0], states.float().diff(dim=0).bfloat16())


@pytest.mark.parametrize(("layers", "heard_layers"), [((), (1, 2)), ((2,), (0,))])
def test_the_layers_of_the_message_count_not_those_of_the_hearer(
    store: PayloadStore, layers: tuple[int, ...], heard_layers: tuple[int, ...]
) -> None:
    message = say(SDE(layers=heard_layers), LOADED, store)
    assert (
        tuple(edit.layer for edit in hear(SDE(layers=layers), LOADED, store, MessageRef(message)).edits) == heard_layers
    )


# Between two models


def test_other_weights_are_refused_by_name_and_by_what_would_help() -> None:
    other, smaller = tiny_loaded(seed=1, num_hidden_layers=3), tiny_loaded(seed=1)

    with pytest.raises(ProtocolError, match="sde needs one model on both sides, but 'qwen2-0' and 'qwen2-1'") as same:
        SDE().check(LOADED, other)
    with pytest.raises(ProtocolError, match="hidden needs one model") as different:
        Hidden().check(LOADED, smaller)

    assert "`allow_other_weights=True`" in str(same.value) and "allow_other_weights" not in str(different.value)


def test_other_weights_of_one_shape_are_heard_where_the_user_allows_it(store: PayloadStore) -> None:
    other, allowing = tiny_loaded(seed=1, num_hidden_layers=3), SDE(allow_other_weights=True)
    heard = MessageRef(say(SDE(), LOADED, store))

    assert allowing.check(LOADED, other) == "by sde between other weights, which is outside the paper"
    assert len(hear(allowing, other, store, heard).edits) == 1
    assert hear(SDE(), other, store, heard).edits == ()


def test_other_shapes_and_vocabularies_are_refused_whatever_is_allowed() -> None:
    others = [tiny_loaded(), tiny_loaded(hidden_size=48, num_hidden_layers=3)]
    others.append(assemble("longer", tiny_model(num_hidden_layers=3, seed=1, vocab_size=301), longer_tokenizer()))
    for other in others:
        with pytest.raises(ProtocolError):
            SDE(allow_other_weights=True).check(LOADED, other)
