"""The decoding loop against `transformers.generate`, and the protocols against natural language."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial

import torch
from transformers.generation.streamers import BaseStreamer

from benchmarks.measuring import Options, Run, Table, Times, as_published, interleaved, percent, times, with_engine
from sottovoce.channels.cipher import Cipher
from sottovoce.channels.nl import NL
from sottovoce.channels.protocol import Prompt, Protocol
from sottovoce.channels.sde import SDE
from sottovoce.core.any_types import Untyped
from sottovoce.models import Ids, LoadedModel, Request, Sampling, Stop
from sottovoce.models.huggingface.packed_weights import parameters_of

NEW, NEW_OF_REAL = 64, 32  # tokens per reply; no stop ids, so that every rival generates the same number
SHORTEST, LONGEST = 40, 120  # tokens of the prompts, evenly spaced
BATCHES, LARGE_BATCHES = (1, 8, 32), (1, 8, 32, 64)
LARGE = 1_000_000_000  # parameters; larger models also run the larger batches
KEEPING, LOOKUP = "`nl` with statistics", "`nl` with lookup decoding"
CIPHERS = {f"`cipher` at {temperature}": temperature for temperature in (0.175, 0.35, 0.7)}  # 0.7: the models' own
FIRST = ", the first token"
"""Suffix of a rival's name for the same requests with one new token: the time of their prompts."""
CACHES = {"`generate`": None, "`generate`, static cache": "static"}


def requests(batch: int, new: int = NEW) -> list[Request]:
    """Return greedy requests without payloads for prompts of mixed lengths."""
    lengths = [LONGEST] if batch == 1 else [SHORTEST + (LONGEST - SHORTEST) * i // (batch - 1) for i in range(batch)]
    prompts = [tuple(10 + (7 * i + 13 * j) % 500 for j in range(n)) for i, n in enumerate(lengths)]
    return [Request((Ids(prompt),), Stop(new)) for prompt in prompts]


def spoken(protocol: Protocol, bare: Sequence[Request], loaded: LoadedModel, temperature: float = 0.0) -> list[Request]:
    """Return a protocol's requests for the same prompts."""
    sampling = Sampling(temperature)
    plain = [Prompt(each.prompt).request(loaded, each.stop.max_new, sampling) for each in bare]
    made = [protocol.make_request(each, loaded) for each in plain]
    return [replace(each, stop=replace(each.stop, ids=())) for each in made]


def sde(loaded: LoadedModel) -> SDE:
    """Return SDE with two layers: the last default one and the one before it."""
    last = loaded.latent_layers()[-1]
    return SDE(layers=(last - 1, last))


def with_first(rivals: Callable[[int], Mapping[str, Run]], new: int) -> dict[str, Run]:
    """Return rivals that generate `new` tokens, and each of them again for the first token only."""
    return {**rivals(new), **{f"{name}{FIRST}": run for name, run in rivals(1).items()}}


@torch.inference_mode()
def generate(
    loaded: LoadedModel, requests: Sequence[Request], cache: str | None = None, streamer: BaseStreamer | None = None
) -> list[list[int]]:
    """Generate for the same requests with `transformers.generate`: left padding, greedy, the same number of tokens."""
    rows = [[id for piece in each.prompt if isinstance(piece, Ids) for id in piece.ids] for each in requests]
    longest = max(map(len, rows))
    ids = torch.tensor([[0] * (longest - len(row)) + row for row in rows], device=loaded.network.device)
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows], device=ids.device)
    config = deepcopy(loaded.model.generation_config)
    assert config is not None, "a model that generates has a generation configuration"
    never = loaded.model.config.vocab_size  # None would use the model's end-of-sequence id
    config.update(do_sample=False, max_new_tokens=requests[0].stop.max_new, eos_token_id=never, pad_token_id=0)
    config.update(temperature=None, top_p=None, top_k=None, repetition_penalty=None, cache_implementation=cache)
    model: Untyped = loaded.model
    found = model.generate(ids, attention_mask=mask, generation_config=config, streamer=streamer)
    generated: list[list[int]] = found[:, longest:].tolist()
    return generated


def tables(options: Options) -> Iterator[Table]:
    """Yield ratios by batch size, with their aims; prefixes are not reused, since repeats send the same requests."""
    loaded = with_engine(options.loaded, threads=options.threads, reuse=False, lookup=False)
    size, published = parameters_of(loaded.model), as_published(loaded)
    batches = options.batches or options.some(*(LARGE_BATCHES if size >= LARGE else BATCHES))
    new = options.most(NEW if loaded.network.small else NEW_OF_REAL)
    rivals = [with_first(partial(_rivals, loaded, published, batch), new) for batch in batches]
    repeats = [max(options.repeats // max(batch // 8, 1), 1) for batch in batches]  # fewer of what takes minutes
    if loaded.network.small:  # more of what is short and noisy
        repeats = [options.repeats * max(4 - batch // 4, 1) for batch in batches]
    whole = [interleaved(rival, n, options.clock) for rival, n in zip(rivals, repeats, strict=True)]
    beyond_first = [times_of.beyond(FIRST) for times_of in whole]
    table, caches = Table(), [name for name in CACHES if name in rivals[0]]
    title = f"decoding alone, {new} new tokens after {SHORTEST}-{LONGEST}, torch threads: {options.threads}"
    table.add(title, *(f"batch {batch}" for batch in batches), "aim")
    for name, aim, value in _ratios(loaded, caches):
        table.add(name, *map(value, beyond_first), aim)
    for name in (*caches, "`nl`", KEEPING):
        found = [1000 * times_of.median(name) / (new - 1) for times_of in beyond_first]
        table.add(f"milliseconds a step: {name}", *map("{:.2f}".format, found))
    yield table


def _ratios(loaded: LoadedModel, caches: list[str]) -> Iterator[tuple[str, str, Callable[[Times], str]]]:
    """Yield name, aim, and the function that computes the ratio from the times."""
    # A mean under a flat distribution, and any mean on a GPU, adds a product with the whole embedding table.
    whole = f"{min(1 - loaded.table.rows.numel() / parameters_of(loaded.model), 0.9):.2f}x"
    few = "0.96x" if loaded.network.device.type == "cpu" else whole
    against = "`nl` against `transformers.generate`, the faster of its caches"
    aim = "1.3x, 1.1x, 1.0x" if loaded.network.small else "1.05x, 1.15x, 1.2x"
    yield against, aim, lambda times_of: times(min(times_of.speed("`nl`", name) for name in caches))
    yield f"{LOOKUP} against `nl`", "0.98x", lambda times_of: times(times_of.speed(LOOKUP, "`nl`"))
    yield "cost of statistics per token", "3 %", lambda times_of: percent(1 / times_of.speed(KEEPING, "`nl`") - 1)
    for name, temperature in CIPHERS.items():
        ratio = partial(lambda name, times_of: times(times_of.speed(name, KEEPING)), name)
        yield f"{name} against {KEEPING}", few if temperature < 0.7 else whole, ratio
    yield f"`sde` of two layers against {KEEPING}", "0.97x", lambda times_of: times(times_of.speed("`sde`", KEEPING))


def _rivals(loaded: LoadedModel, published: LoadedModel, batch: int, new: int) -> dict[str, Run]:
    bare = requests(batch, new)
    ours = {
        "`nl`": bare,
        KEEPING: spoken(NL(), bare, loaded),
        **{name: spoken(Cipher(), bare, loaded, temperature) for name, temperature in CIPHERS.items()},
        "`sde`": spoken(sde(loaded), bare, loaded),
    }
    theirs: dict[str, Run] = {}
    for name, cache in CACHES.items():
        run = partial(generate, published, bare, cache)
        try:
            run()
            theirs[name] = run
        except Exception as error:  # on a GPU a static cache needs a compiler
            print(f"{name} is left out: {type(error).__name__}: {error}", file=sys.stderr)
    runs: dict[str, Run] = {name: partial(loaded.engine.run_all, asked) for name, asked in ours.items()}
    return theirs | runs | {LOOKUP: partial(loaded.engine.twin(lookup=True).run_all, bare)}
