"""Default sampling settings of a model, for drawn tokens and for mean embeddings.

A drawn token is a word at any temperature, although a small chat model rambles at 1. A mean embedding is near a
word only if the distribution is narrow. SmolLM2, whose files name no temperature, writes fluent text from means at
0.15 to 0.4 and noise at 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from statistics import fmean, stdev
from typing import NamedTuple

import torch

from sottovoce.core.catalogue import defaults_of
from sottovoce.models.engine.request import Feed, Ids, Reply, Request, Sampling, Stop
from sottovoce.models.loaded import LoadedModel

CAUTIOUS = 0.3
"""Temperature of means for an unknown model: readable on the smallest chat model that we measured."""
USUAL = 0.7
"""Temperature of drawn tokens for an unknown model: chat models are published with 0.6 to 0.7."""


class Base(NamedTuple):
    """A temperature and its source."""

    value: float
    why: str = ""
    """The source, for users; empty if the value comes from the model's own files."""
    sure: bool = True
    """False if nothing is known about this model."""


def default_sampling(loaded: LoadedModel) -> Sampling:
    """Return the sampling settings of drawn tokens: the model's files first, then the catalogue."""
    own = replace(loaded.sampling, temperature=drawn_temperature(loaded).value)
    return replace(own, top_p=top_p.value) if (top_p := known_top_p(loaded)) else own


def drawn_temperature(loaded: LoadedModel) -> Base:
    """Return the temperature of drawn tokens: from the files, the catalogue, the model's family, or the usual one."""
    if loaded.model.generation_config.temperature is not None or loaded.sampling.temperature == 0:
        return Base(loaded.sampling.temperature)
    if known := defaults_of(loaded.name):
        return Base(known.temperature, known.source)
    return _of_family(loaded) or Base(USUAL, "the usual temperature of chat models", sure=False)


def known_top_p(loaded: LoadedModel) -> Base | None:
    """Return the catalogue's top-p if the model's files name none."""
    known = defaults_of(loaded.name)
    silent = getattr(loaded.model.generation_config, "top_p", None) is None
    return Base(known.top_p, known.source) if known and silent else None


def base_temperature(loaded: LoadedModel) -> Base:
    """Return the base temperature of means: from the files, the family, a known measurement, or a cautious default."""
    if named := loaded.model.generation_config.temperature:  # even if the files do not sample
        return Base(named)
    if family := _of_family(loaded):
        return family
    if known := KNOWN.get(loaded.weights_key):
        return Base(known, "measured on these weights")
    return Base(CAUTIOUS, "a cautious choice", sure=False)


PUBLISHED: Mapping[str, float] = {"Qwen": 0.7, "Llama 3": 0.6}
"""Temperatures by family, from generation_config.json of the Qwen2.5 and Llama 3.1 instruct models."""

KNOWN: Mapping[str, float] = {"7b4b7b56b431b7f9": 0.4}
"""Temperatures by weights: measured by `models doctor` for SmolLM2-135M-Instruct in float32, from the catalogue."""


def _of_family(loaded: LoadedModel) -> Base | None:
    tokenizer = loaded.tokenizer
    begin = tokenizer.convert_tokens_to_ids("<|begin_of_text|>")  # asked for by name: a vocabulary takes long to list
    family = family_of(loaded.model.config.get_text_config().model_type, len(tokenizer), begin)
    return Base(PUBLISHED[family], f"published for the {family} family") if family else None


def family_of(model_type: str, size: int, begin: object) -> str | None:
    """Return a family of PUBLISHED, judged by vocabulary too: unrelated models share architectures, not tokenizers.

    `size` is the number of tokens, and `begin` the id of Llama 3's first one.
    """
    if model_type.startswith("qwen") and size >= 151_643:  # the BPE of Qwen's first models; later ones grew
        return "Qwen"
    if model_type == "llama" and begin == 128_000:
        return "Llama 3"
    return None


LADDER = (1.0, 0.85, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.15)
TOGETHER = 3
"""Number of temperatures that are tried in one batch."""
DRAWN_AT = 0.7
LONGEST = 48
PROMPTS = (
    "Why do leaves turn yellow in autumn?",
    "Describe a busy market on a summer morning.",
    "How does one bake a simple loaf of bread?",
    "What makes a good neighbour?",
    "Tell of a journey by train along the coast.",
    "Explain how a bridge carries its load.",
)
Prompt = tuple[int, ...]


class Said(NamedTuple):
    """A user's turn of a chat."""

    parts: tuple[str]
    role: str = "user"


def measure(loaded: LoadedModel) -> tuple[dict[float, float], float]:
    """Go down the ladder to the highest temperature at which mean embeddings can be read as text.

    Messages of 48 steps are decoded on six prompts at each temperature and scored as plain text: the mean
    log-probability (nats) of their nearest tokens. A temperature is readable if its score is at least that of text
    drawn at 0.7, minus twice the standard deviation over the prompts. The reference is not 1, because text sampled from
    SmolLM2 at 1 is so poor (-2.7) that mean embeddings at 0.6 would pass, although half of them are noise (-2.9).

    Return the scores by temperature, the last one readable unless none is, and the lowest readable score. Seeds are
    fixed; another machine may find the next temperature. SmolLM2 takes about 40 seconds on one core.
    """
    chats = [loaded.chat.encode([Said((text,))]) for text in PROMPTS]
    prompts, found = [tuple(chain.from_iterable(chat)) for chat in chats], dict[float, float]()
    drawn = _likelihoods(loaded, prompts, Feed(), [DRAWN_AT])[0]
    allowed = fmean(drawn) - 2 * stdev(drawn)
    for at in range(0, len(LADDER), TOGETHER):
        rungs = LADDER[at : at + TOGETHER]
        for temperature, each in zip(rungs, _likelihoods(loaded, prompts, Feed("mean"), rungs), strict=True):
            found[temperature] = fmean(each)
            if found[temperature] >= allowed:
                return found, allowed
    return found, allowed


def _likelihoods(
    loaded: LoadedModel, prompts: Sequence[Prompt], feed: Feed, temperatures: Sequence[float]
) -> list[list[float]]:
    """Return the likelihoods of the replies to all prompts, by temperature, decoded in one batch."""
    requests = []
    for temperature in temperatures:
        for seed, prompt in enumerate(prompts):
            longest = min(LONGEST, (loaded.network.context or len(prompt) + LONGEST) - len(prompt))
            # The stop id is kept: a message that ends at once is then scored by its end, and no message is empty.
            stop = Stop(longest, loaded.stop_ids, by="nearest" if feed.kind == "mean" else "token", keep=True)
            requests.append(Request((Ids(prompt),), stop, feed=feed, sampling=Sampling(temperature, seed=seed)))
    replies = iter(loaded.engine.run_all(requests))
    return [[_likelihood(loaded, prompt, next(replies)) for prompt in prompts] for _ in temperatures]


@torch.inference_mode()
def _likelihood(loaded: LoadedModel, prompt: Prompt, reply: Reply) -> float:
    """Return the mean log-probability (nats) of a reply's tokens after the prompt, as plain text."""
    ids = torch.tensor([[*prompt, *reply.ids]], device=loaded.network.device)
    logits = loaded.model(input_ids=ids, use_cache=False).logits[0, len(prompt) - 1 : -1, : len(loaded.table)]
    logp = logits.float().log_softmax(-1).gather(-1, ids[0, len(prompt) :, None])
    return float(logp.mean())
