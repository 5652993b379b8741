"""Engines without a past, kept busy or watched, for the tests of the engine and its parts."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import nn

from sottovoce.models import Engine, Feed, Ids, LoadedModel, Reply, Request, Rows, assemble
from sottovoce.models.engine.cache import PrefixCache, chain
from sottovoce.models.engine.loop import Loop
from sottovoce.models.engine.request import position_keys
from sottovoce.models.engine.sequence import Sequence
from sottovoce.models.huggingface.layers import hooked
from tests.support import HIDDEN, VOCABULARY, close, ids, prompt_ids, request, tiny_model, tiny_tokenizer

LIMIT = 600  # seconds; reached only where the engine hangs
POSITION = 2 * 2 * 2 * 8 * 4  # bytes of a position: layers, keys and values, heads, width, float32
Matrix = torch.Tensor
Kind = TypeVar("Kind")


def fresh(family: str = "qwen2", shape: Mapping[str, Any] | None = None, **options: Any) -> LoadedModel:
    """A loaded model whose engine has no past; `shape` as `tiny_model`, options as `assemble` take them."""
    return assemble("fresh", tiny_model(family, **(shape or {})), tiny_tokenizer(), **options)


@contextmanager
def busy(engine: Engine) -> Iterator[None]:
    """Keep the engine at work inside the block: what is asked in it waits, and is one batch afterwards."""
    began, done = threading.Event(), threading.Event()

    def wait(_logits: Matrix, p: Matrix) -> Matrix:
        began.set()
        done.wait(LIMIT)
        return p

    engine.submit(request(max_new=1, feed=Feed("mean", wait)))
    began.wait(LIMIT)
    try:
        yield
    finally:
        done.set()


def together(engine: Engine, asked: Iterable[Request]) -> list[Reply]:
    """The replies to requests that are one batch."""
    with busy(engine):
        submitted = [engine.submit(each) for each in asked]
    return [each.result(LIMIT) for each in submitted]


def words(n: int, seed: int = 0) -> Ids:
    """Any n tokens, special ones aside."""
    generator = torch.Generator().manual_seed(seed)
    return Ids(tuple(torch.randint(3, 290, (n,), generator=generator).tolist()))


def fails(_logits: Matrix, _p: Matrix) -> Matrix:
    """Raise, where weights are asked of a caller's own function."""
    raise ZeroDivisionError("of a caller's own weights")


def spoiled(*before: Ids, n: int = 2) -> Request:
    """A request that no model reads to the end: rows that are no numbers."""
    return request((*(before or (Ids(ids("Hi")),)), Rows(torch.full((n, HIDDEN), torch.nan))))


def finish(loop: Loop, loaded: LoadedModel, requests: Iterable[Request]) -> tuple[list[Reply], list[list[str]]]:
    """The replies of a loop that runs in this thread, and the texts that were streamed."""
    sequences, streamed = list[Sequence](), list[list[str]]()
    for each in requests:
        texts, keys = list[str](), position_keys(each, loaded.table.rows.dtype)
        blocks, grammar = chain(keys[:-1], 1), loaded.engine.check(each)
        sequences.append(Sequence(each, loaded.tokenizer, keys, blocks, grammar, texts.append))
        streamed.append(texts)
    loop.scheduler.waiting.extend(sequences)
    while loop.scheduler.busy:
        loop.step()
    return [each.future.result(LIMIT) for each in sequences], streamed


def others(loop: Loop, loaded: LoadedModel, requests: Iterable[Request], when: Callable[[], bool]) -> list[Reply]:
    """The replies to all requests but the first, which is cancelled after the pass that makes `when` true."""
    sequences = [Sequence(each, loaded.tokenizer) for each in requests]
    loop.scheduler.waiting.extend(sequences)
    while not when():
        loop.step()
    sequences[0].future.cancel()
    while loop.scheduler.busy:
        loop.step()
    return [each.future.result(LIMIT) for each in sequences[1:]]


def slots(columns: int, rows: int = 1) -> int:
    """Bytes of keys and values of slots of a tiny model, the spare column included."""
    return rows * (columns + 1) * POSITION


def hooks(model: nn.Module) -> int:
    """How many there are on all modules."""
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())


def consistent(cache: PrefixCache) -> bool:
    """Bytes add up within the budget, and every name leads to a run that is kept and has it."""
    return cache.nbytes == sum(run.nbytes for run in cache._runs) <= cache.budget and all(
        run in cache._runs and digest in run.digests for digest, run in cache._at.items()
    )


def living(kind: type[Kind]) -> list[Kind]:
    """All objects of a class that anything still holds."""
    gc.collect()
    return [each for each in gc.get_objects() if type(each) is kind]


def plain(
    loaded: LoadedModel, asked: Request, **options: Any
) -> Any:  # Any: a model's output, by the names it has there
    """One forward pass of the unmodified model over the prompt's embeddings, its edits added by hand."""
    pieces = [loaded.table.rows[list(p.ids)] if isinstance(p, Ids) else p.rows for p in asked.prompt]  # type: ignore[union-attr]

    def by_hand(layer: int, hidden: torch.Tensor) -> torch.Tensor:
        hidden = hidden.clone()
        for change in asked.edits:
            if change.layer == layer:
                hidden[0, change.at : change.at + len(change.delta)] += change.delta
        return hidden

    changes = {each.layer: lambda h, layer=each.layer: by_hand(layer, h) for each in asked.edits}
    with hooked(loaded.network.layers, changes), torch.inference_mode():
        return loaded.model(inputs_embeds=torch.cat(pieces)[None], **options)


def reads_as_plain(loaded: LoadedModel, asked: Request, reply: Reply) -> bool:
    """The first token's most probable alternatives are those of a plain forward pass."""
    assert reply.stats is not None
    expected = plain(loaded, asked).logits[0, -1, :VOCABULARY].log_softmax(-1)
    return close(reply.stats.top_logprobs[0], expected[reply.stats.top_ids[0]])


def generate(loaded: LoadedModel, asked: Request, **options: object) -> tuple[int, ...]:
    """What transformers.generate adds to a prompt of ids."""
    prompt = torch.tensor([prompt_ids(asked)])
    n = asked.stop.max_new
    out: torch.Tensor = loaded.model.generate(  # type: ignore[operator]  # transformers hides it from types
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=n,
        min_new_tokens=n,
        do_sample=False,
        **{"eos_token_id": None, **options},
    )
    return tuple(out[0, prompt.shape[1] :].tolist())
