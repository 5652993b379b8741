"""Tiny models with random weights and a fixed seed, built offline in milliseconds, and words for asking them."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import torch
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import convert_to_messages
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from sottovoce.agents import chat_model
from sottovoce.agents.ask import Ask
from sottovoce.agents.hooked import HookedChatModel
from sottovoce.agents.parameters import Refused
from sottovoce.channels.message import Message, Part, Place, Turn
from sottovoce.channels.payload import Payload
from sottovoce.channels.protocol import Load, Protocol
from sottovoce.channels.store import PayloadStore
from sottovoce.core.event_loop import wait
from sottovoce.models import Edit, Ids, LoadedModel, Piece, Reply, Request, Rows, Sampling, Stop, assemble

FLOAT32 = 2e-5  # of the largest magnitude: what another order of float32 sums may change (the engine's promise)
GREEDY = Sampling()

VOCABULARY, HIDDEN = 300, 32
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LESSON = "You know: Mia has 3 apples. What is 14 + 3 * 5 - 7? The answer is 22. Another agent answered: 22 pears."
WINDOW = 8  # positions that a layer with a sliding window sees, in all families that have one
GEMMA: dict[str, object] = {"head_dim": 8, "sliding_window": WINDOW, "query_pre_attn_scalar": 8}
SHAPES: dict[str, dict[str, object]] = {  # each family by its model type, and what it calls otherwise than Llama does
    "bloom": {},
    "falcon": {"num_key_value_heads": None},
    "falcon-alibi": {"num_key_value_heads": None, "alibi": True},  # a variant is named behind a dash
    "gemma2": GEMMA,  # a sliding layer, then a full one
    "gemma3_text": {**GEMMA, "layer_types": ["sliding_attention", "full_attention"]},
    "gpt2": {"n_embd": HIDDEN, "n_layer": 2, "n_head": 4, "n_positions": 512},
    "gpt_neox": {"num_key_value_heads": None},
    "granite": {},
    "llama": {},
    "mistral": {},  # its window of 4096 is longer than any test
    "mistral-window": {"sliding_window": WINDOW},  # on all layers
    "mpt": {},
    "olmo2": {},
    "opt": {"ffn_dim": 64, "word_embed_proj_dim": HIDDEN, "num_key_value_heads": None},
    "opt-narrow": {
        "ffn_dim": 64,
        "word_embed_proj_dim": HIDDEN // 2,
        "num_key_value_heads": None,
        "do_layer_norm_before": False,
    },
    "phi3": {},
    "phi3-window": {"sliding_window": WINDOW},
    "qwen2": {},
    "qwen2-window": {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1},
    "qwen3": {"head_dim": 8},
    "stablelm": {},
}
FAMILIES = tuple(SHAPES)
PER_LAYER: dict[str, Any] = {
    **GEMMA,
    "layer_types": ["sliding_attention", "full_attention"],
    "hidden_size_per_layer_input": 8,
    "vocab_size_per_layer_input": VOCABULARY,
    "num_kv_shared_layers": 0,
}
LIMITED: dict[str, dict[str, Any]] = {  # families that can take part in some protocols, and their configuration
    "gemma3n_text": {
        **PER_LAYER,
        "intermediate_size": [64, 64],
        "activation_sparsity_pattern": [0.0, 0.0],
        "altup_num_inputs": 2,
        "laurel_rank": 4,
    },
    "gemma4_text": {**PER_LAYER, "global_head_dim": 8},
}
LONGROPE = {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [4.0] * 4, "rope_theta": 1e4}


@cache
def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer with a ChatML template."""
    return trained_tokenizer([LESSON] * 4, VOCABULARY, CHATML)


def trained_tokenizer(texts: Sequence[str], size: int, template: str) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer of so many pieces, with a chat template."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    bpe.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=template
    )


def tiny_model(
    family: str = "qwen2", *, seed: int = 0, sharp: float = 0.3, vocab_size: int = VOCABULARY, **config: object
) -> PreTrainedModel:
    """A two-layer model of a family or one of its variants in SHAPES.

    `sharp` is the spread of its weights: 0.3 keeps greedy margins far above float32 noise.
    """
    shape: dict[str, object] = {
        "hidden_size": HIDDEN,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "initializer_range": sharp,
        "tie_word_embeddings": False,
        "bos_token_id": 0,
        "eos_token_id": [2, 0],
        "pad_token_id": 0,
    }
    wanted = {name: value for name, value in {**shape, **SHAPES.get(family, {}), **config}.items() if value is not None}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(
            AutoConfig.for_model(family.partition("-")[0], vocab_size=vocab_size, **wanted)
        )
    assert isinstance(model, PreTrainedModel), "transformers builds its own kind"
    assert model.generation_config is not None
    model.generation_config.temperature = 1.0  # named, so that cipher starts from what the other protocols do
    return model


@cache
def tiny_loaded(family: str = "qwen2", *, seed: int = 0, **options: object) -> LoadedModel:
    """A tiny model, one for each set of arguments in a test run; `options` as `tiny_model` takes them."""
    return assemble(f"{family}-{seed}", tiny_model(family, seed=seed, **options), tiny_tokenizer())  # type: ignore[arg-type]


@cache
def reciting_loaded(text: str) -> LoadedModel:
    """A loaded model that goes on in `text` from its prompt's last token, round and round, and is very sure of it.

    Its layers add nothing to the embeddings, and its head's row of a token is the embedding of the
    token before. A text that begins with a line break answers chats; no token may stand in it twice.
    """
    said = list(ids(text))
    return assemble(f"reciting {text!r}", reciting_model([*said, said[0]]), tiny_tokenizer())


def reciting_model(*said: Sequence[int], vocab_size: int = VOCABULARY) -> PreTrainedModel:
    """A model that follows each token of the sequences `said` by the next one, whatever was before."""
    pairs = [pair for each in said for pair in pairwise(each)]
    assert len({before for before, _ in pairs}) == len(pairs), f"tokens repeat in {said}"
    model = tiny_model(sharp=1.0, hidden_size=64, vocab_size=vocab_size)
    parameters = {name: parameter.data for name, parameter in model.named_parameters()}
    for name, values in parameters.items():
        if name.endswith(("o_proj.weight", "down_proj.weight", "lm_head.weight")):
            values.zero_()
    before = nn.functional.normalize(parameters["model.embed_tokens.weight"][[before for before, _ in pairs]], dim=-1)
    for row, (_, after) in zip(before, pairs, strict=True):
        parameters["lm_head.weight"][after] += 20 * row  # 20: margins of many nats
    return model


def ids(text: str) -> tuple[int, ...]:
    """The tiny tokenizer's ids of a text."""
    return tuple(tiny_tokenizer()(text, add_special_tokens=False).input_ids)


def text(found: tuple[int, ...]) -> str:
    """What the tiny tokenizer makes of ids."""
    return str(tiny_tokenizer().decode(list(found), skip_special_tokens=True))


def request(prompt: str | tuple[Piece, ...] = "What is 14 + 3?", max_new: int = 8, **options: object) -> Request:
    """A request for `max_new` tokens after a prompt, greedy and without stops unless `options` say otherwise."""
    pieces = (Ids(ids(prompt)),) if isinstance(prompt, str) else prompt
    return Request(pieces, **{"stop": Stop(max_new), **options})  # type: ignore[arg-type]  # its fields, by name


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    """Gaussian numbers from a generator of their own."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def rows(n: int, width: int = HIDDEN, seed: int = 0) -> Rows:
    """A latent piece of a prompt."""
    return Rows(noise(n, width, seed=seed))


def edit(layer: int, at: int, n: int, seed: int = 0) -> Edit:
    """A random addition at n positions."""
    return Edit(layer, at, noise(n, HIDDEN, seed=seed))


def close(found: torch.Tensor, expected: torch.Tensor, relative: float = FLOAT32) -> bool:
    """Equal shapes, and values equal within `relative` of the largest expected magnitude."""
    if found.shape != expected.shape:
        return False
    scale = expected.abs().max().item() if expected.numel() else 0.0
    return bool(torch.allclose(found, expected, rtol=0.0, atol=relative * scale))


def same_reply(found: Reply, expected: Reply, relative: float = FLOAT32) -> bool:
    """The same tokens, ending and lengths, and every tensor equal within float32 tolerance."""
    alike = ((reply.ids, reply.finish, reply.usage.prompt, reply.usage.new) for reply in (found, expected))
    if next(alike) != next(alike):
        return False
    pairs = [(found.rows.get(key), rows) for key, rows in expected.rows.items()]
    pairs += [(found.states.get(layer), states) for layer, states in expected.states.items()]
    if expected.stats is not None and found.stats is not None:
        pairs += [(found.stats.logprob, expected.stats.logprob), (found.stats.entropy, expected.stats.entropy)]
    return all(left is not None and close(left, right, relative) for left, right in pairs)


def request_of(
    protocol: Protocol,
    turns: Sequence[Turn],
    loaded: LoadedModel,
    load: Load,
    max_new: int,
    sampling: Sampling = GREEDY,
    *,
    hearers: Sequence[LoadedModel] = (),
    **how: Any,
) -> Request:
    """The request for a reply to a chat."""
    plain = protocol.encode_prompt(turns, loaded, load).request(loaded, max_new, sampling, **how)
    return protocol.make_request(plain, loaded, hearers)


def say(
    protocol: Protocol,
    loaded: LoadedModel,
    store: PayloadStore,
    *,
    prompt: str = "What is 14 + 3?",
    agent: str = "agent_1",
    max_new: int = 8,
    sampling: Sampling = GREEDY,
    hearers: tuple[LoadedModel, ...] = (),
) -> Message:
    """What an agent answers to a text, its payload in the store."""
    turns = [Turn("user", (prompt,))]
    asked = request_of(protocol, turns, loaded, lambda ref: ref.load(store), max_new, sampling, hearers=hearers)
    payload = protocol.record_reply(loaded.engine.run(asked), loaded)
    return Message(agent, 0, "answer", payload.label.text, payload=store.put(payload))


def hear(protocol: Protocol, loaded: LoadedModel, store: PayloadStore, *parts: Part, max_new: int = 8) -> Request:
    """The request of an agent that reads `parts` between words."""
    turns = [Turn("user", ("Another agent answered:\n", *parts, "\nWhat is right?"))]
    return request_of(protocol, turns, loaded, lambda ref: ref.load(store), max_new)


def payload_of(message: Message, store: PayloadStore) -> Payload:
    """The payload of a message that has one."""
    assert message.payload is not None
    return message.payload.load(store)


def prompt_ids(asked: Request) -> list[int]:
    """The token ids of a prompt, without its latent pieces."""
    return [id for piece in asked.prompt if isinstance(piece, Ids) for id in piece.ids]


def longer_tokenizer() -> PreTrainedTokenizerFast:
    """The tiny tokenizer with one token more: another vocabulary."""
    longer = copy.deepcopy(tiny_tokenizer())
    longer.add_tokens(["sottovoce"])
    return longer


def rows_in(asked: Request) -> torch.Tensor:
    """The one latent piece of a prompt."""
    (piece,) = [piece for piece in asked.prompt if isinstance(piece, Rows)]
    return piece.rows


@cache
def endless_loaded() -> LoadedModel:
    """Greedy, it goes on to the token limit, for seconds, with equal bits whatever else is in its batch."""
    model = tiny_model(max_position_embeddings=4096)
    model.get_output_embeddings().weight.data[[0, 2]] = 0  # its end-of-sequence ids, never the largest logit
    return assemble("endless", model, tiny_tokenizer(), exact=True, max_batch=4)


async def rows_are_free(tokens: int) -> bool:
    """Whether its engine drops a reply of so many tokens long before its end, however slow the machine."""
    statistics = endless_loaded().engine.statistics
    complete = statistics.stepped + tokens // 2
    while statistics.running:
        await asyncio.sleep(0.01)
    return statistics.stepped < complete


def replied(
    model: BaseChatModel, ask: Ask, agent: str = "zoe", refused: Refused | None = None, **place: int
) -> Message:
    """The reply of an agent's model to a request in a discussion."""
    where = Place(**{"epoch": 0, "round": 0, "turn": 0, "attempt": 0, **place}, agent=agent, act=ask.act)
    return wait(chat_model.reply(model, replace(ask, place=where), refused or Refused()))


def requested(model: HookedChatModel, messages: Any, **call: Any) -> Request:
    """The request of a call of LangChain, behind the model's thoughts if there are any."""
    ask = model.to_ask(convert_to_messages([messages] if isinstance(messages, str) else messages), **call)
    heard = model.encode(ask)
    return model.request(ask, heard, wait(model._think(ask, heard)))
