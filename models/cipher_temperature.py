"""The highest temperature at which mean embeddings can be read as text: CIPHER's base if none is known.

Messages of 48 steps are decoded on six prompts at each temperature, from the highest down, and scored as plain text:
the mean log-probability (nats) of their nearest tokens. A temperature is readable if its score is at least that of text
drawn at 0.7, minus twice the standard deviation over the prompts. The reference is not 1, because text sampled from
SmolLM2 at 1 is so poor (-2.7) that mean embeddings at 0.6 would pass, although half of them are noise (-2.9).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from statistics import fmean, stdev
from typing import NamedTuple

import torch

from sottovoce.models.base_temperature import CAUTIOUS, Measured, base_temperature, save_measurement
from sottovoce.models.engine.request import Feed, Ids, Reply, Request, Sampling, Stop
from sottovoce.models.huggingface.family import LAYERS_READ_IDS, layers_read_ids
from sottovoce.models.loaded import LoadedModel

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


def temperature(loaded: LoadedModel) -> str:
    """Return CIPHER's base temperature and its source. If nothing is known, measure it and save the result."""
    if layers_read_ids(loaded.model):
        return f"not measured: {LAYERS_READ_IDS}, so cipher is refused"
    base = base_temperature(loaded)
    if base.sure:
        return f"{base.value:g}, {base.why or 'named by its files'}"
    measured = measure(loaded)
    try:
        save_measurement(loaded.weights_key, measured)
    except OSError as error:
        return f"{_described(measured)}; not saved: {error.strerror}; runs start from {CAUTIOUS:g}"
    return _described(measured)


def _described(measured: Measured) -> str:
    *warmer, last = measured.found.items()
    figures = ", ".join(f"{likelihood:.2f} at {temperature}" for temperature, likelihood in (last, *warmer[-1:]))
    readable = last[1] >= measured.allowed
    what = "the highest at which messages are readable" if readable else "the lowest tried; no message was readable"
    return f"{measured.temperature:g}, {what}: as text {figures} nats a token, {measured.allowed:.2f} allowed"


def measure(loaded: LoadedModel) -> Measured:
    """Go down the ladder to the first readable temperature, or to the last one if none is readable.

    Seeds are fixed; another machine may find the next temperature. SmolLM2 takes about 40 seconds on one core.
    """
    prompts, found = _prompts(loaded), dict[float, float]()
    drawn = _likelihoods(loaded, prompts, Feed(), [DRAWN_AT])[0]
    allowed = fmean(drawn) - 2 * stdev(drawn)
    for temperature, likelihood in _down(loaded, prompts):
        found[temperature] = likelihood
        if likelihood >= allowed:
            break
    told = {f"{temperature:g}": round(likelihood, 2) for temperature, likelihood in found.items()}
    return Measured(model=loaded.name, temperature=min(found), allowed=round(allowed, 2), found=told)


def _down(loaded: LoadedModel, prompts: Sequence[Prompt]) -> Iterator[tuple[float, float]]:
    for at in range(0, len(LADDER), TOGETHER):
        rungs = LADDER[at : at + TOGETHER]
        yield from zip(rungs, map(fmean, _likelihoods(loaded, prompts, Feed("mean"), rungs)), strict=True)


def _prompts(loaded: LoadedModel) -> list[Prompt]:
    chats = [loaded.chat.encode([Said((text,))]) for text in PROMPTS]
    return [tuple(chain.from_iterable(chat)) for chat in chats]


def _likelihoods(
    loaded: LoadedModel, prompts: Sequence[Prompt], feed: Feed, temperatures: Sequence[float]
) -> list[list[float]]:
    """Return the likelihoods of the replies to all prompts, by temperature, decoded in one batch."""
    requests = [
        _request(loaded, prompt, feed, Sampling(temperature, seed=seed))
        for temperature in temperatures
        for seed, prompt in enumerate(prompts)
    ]
    replies = iter(loaded.engine.run_all(requests))
    return [[_likelihood(loaded, prompt, next(replies)) for prompt in prompts] for _ in temperatures]


def _request(loaded: LoadedModel, prompt: Prompt, feed: Feed, sampling: Sampling) -> Request:
    longest = min(LONGEST, (loaded.network.context or len(prompt) + LONGEST) - len(prompt))
    # The stop id is kept: a message that ends at once is then scored by its end, and no message is empty.
    stop = Stop(longest, loaded.stop_ids, by="nearest" if feed.kind == "mean" else "token", keep=True)
    return Request((Ids(prompt),), stop, feed=feed, sampling=sampling)


@torch.inference_mode()
def _likelihood(loaded: LoadedModel, prompt: Prompt, reply: Reply) -> float:
    """Return the mean log-probability (nats) of a reply's tokens after the prompt, as plain text."""
    ids = torch.tensor([[*prompt, *reply.ids]], device=loaded.network.device)
    logits = loaded.model(input_ids=ids, use_cache=False).logits[0, len(prompt) - 1 : -1, : len(loaded.table)]
    logp = logits.float().log_softmax(-1).gather(-1, ids[0, len(prompt) :, None])
    return float(logp.mean())
