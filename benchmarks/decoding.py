"""The decoding loop against `transformers.generate`, and the protocols against words."""

from __future__ import annotations

import time
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from benchmarks.timing import Clock, Run, Times, interleaved
from sottovoce.models import Feed, Ids, Mind, Record, Request, Sampling, Stop

NEW = 64  # tokens a reply; no stop ids, so that every rival makes as many
SHORTEST, LONGEST = 40, 120  # tokens of the prompts, which grow evenly between
BATCHES = (1, 8, 32)
SDE_LAYERS = (3, 4)
KEPT = Record(stats=True, top=5)  # what every reply of an agent keeps


def requests(mind: Mind, batch: int) -> list[Request]:
    """Greedy requests for bare tokens after prompts of mixed lengths."""
    usable = len(mind.table) - 10  # past the special tokens
    lengths = [LONGEST] if batch == 1 else [SHORTEST + (LONGEST - SHORTEST) * i // (batch - 1) for i in range(batch)]
    prompts = [tuple(10 + (7 * i + 13 * j) % usable for j in range(n)) for i, n in enumerate(lengths)]
    return [Request((Ids(prompt),), Stop(NEW)) for prompt in prompts]


def compare(mind: Mind, batch: int, repeats: int, clock: Clock) -> Times:
    """Seconds a batch: `generate`, `nl` as bare as that, and what agents run: nl with statistics, cipher, sde."""
    bare = requests(mind, batch)
    rivals = {
        "nl": bare,
        "nl with statistics": kept(mind, batch),
        "cipher": [cipher(request) for request in bare],
        "sde": [replace(request, record=replace(KEPT, layers=SDE_LAYERS)) for request in bare],
    }
    runs: dict[str, Run] = {name: partial(mind.engine.run_all, asked) for name, asked in rivals.items()}
    return interleaved({"generate": lambda: generate(mind, bare), **runs}, repeats, clock)


def kept(mind: Mind, batch: int) -> list[Request]:
    """`requests` with what every reply of an agent keeps."""
    return [replace(request, record=KEPT) for request in requests(mind, batch)]


def cipher(request: Request) -> Request:
    """What the cipher protocol makes of a request: means at 0.7, stopping by the nearest token."""
    return replace(
        request,
        feed=Feed("mean"),
        sampling=Sampling(temperature=0.7),
        stop=replace(request.stop, by="nearest", special=True),
        record=replace(KEPT, sparse=16),
    )


@torch.inference_mode()
def generate(mind: Mind, asked: Sequence[Request]) -> torch.Tensor:
    """The same requests by `transformers.generate`: left padding, greedy, as many new tokens."""
    rows = [sum((piece.ids for piece in request.prompt if isinstance(piece, Ids)), ()) for request in asked]
    longest = max(map(len, rows))
    ids = torch.tensor([[0] * (longest - len(row)) + list(row) for row in rows], device=mind.network.device)
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows], device=ids.device)
    config = deepcopy(mind.model.generation_config)
    assert config is not None, "a model that generates has a generation configuration"
    never = mind.model.config.vocab_size  # None would take the model's own end of sequence
    config.update(do_sample=False, max_new_tokens=NEW, eos_token_id=never, pad_token_id=0)
    config.update(temperature=None, top_p=None, top_k=None)
    model: Any = mind.model  # Any: transformers types the class of `generate` as a tensor
    made: torch.Tensor = model.generate(ids, attention_mask=mask, generation_config=config)
    return made[:, longest:]


def agree(mind: Mind, batch: int) -> int:
    """How many of the rows are equal to `generate`'s, token for token."""
    asked = requests(mind, batch)
    ours = [list(reply.ids) for reply in mind.engine.run_all(asked)]
    return sum(own == other for own, other in zip(ours, generate(mind, asked).tolist(), strict=True))


def outside(mind: Mind, run: Run) -> float:
    """The share of the wall time of `run` that is not spent inside the model's forward pass."""
    starts: list[float] = []
    inside: list[float] = []
    before = mind.model.register_forward_pre_hook(lambda *_: starts.append(time.perf_counter()))
    after = mind.model.register_forward_hook(lambda *_: inside.append(time.perf_counter() - starts[-1]))
    try:
        start = time.perf_counter()
        run()
        return 1 - sum(inside) / (time.perf_counter() - start)
    finally:
        before.remove()
        after.remove()
