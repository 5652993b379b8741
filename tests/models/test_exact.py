"""exact=True on the bundled model: equal bits whatever the neighbours, whenever it comes, whatever was read before."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from functools import cache, partial

import pytest
import torch

from sottovoce import models
from sottovoce.models import Edit, Engine, Feed, Ids, Record, Reply, Request, Rows, Sampling, Stop
from sottovoce.models.engine.request import Piece
from tests.support import noise
from tests.tables import some

REQUESTS, LAYERS = 8, (2, 3)
load = partial(models.load, device="cpu")  # equal bits are promised there alone


def ids(chance: random.Random, n: int) -> Ids:
    return Ids(tuple(chance.randrange(10, len(load().table)) for _ in range(n)))


def latent(chance: random.Random) -> tuple[Piece, ...]:
    width = load().table.width
    return (Rows(0.05 * noise(chance.randint(1, 20), width, seed=chance.randrange(99))), ids(chance, 3))


def edits(chance: random.Random, length: int) -> tuple[Edit, ...]:
    n = chance.randint(1, min(length, 10))
    delta = noise(n, load().network.hidden, seed=chance.randrange(99))
    return (Edit(chance.choice(LAYERS), chance.randint(0, length - n), delta),)


def drawn(chance: random.Random, beginning: Ids) -> Request:
    """Any kind of request; some share a beginning."""
    prompt: tuple[Piece, ...] = (beginning,) if chance.random() < 0.4 else ()
    prompt += (ids(chance, chance.randint(2, 80)), *(latent(chance) if chance.random() < 0.3 else ()))
    feed = chance.choice([Feed(), Feed(), Feed("mean")])
    return Request(
        prompt,
        Stop(chance.choice([1, 8, 16])),
        edits(chance, sum(map(len, prompt))) if chance.random() < 0.3 else (),
        feed,
        Sampling(
            chance.choice([0.0, 0.7, 1.0]),
            top_k=chance.choice([0, 20]),
            top_p=chance.choice([1.0, 0.9]),
            repetition_penalty=chance.choice([1.0, 1.1]),
            seed=chance.randrange(10**6),
        ),
        Record(LAYERS, stats=True, top=5, sparse=8 if feed.kind == "mean" else 0),
    )


@cache
def asked() -> list[Request]:
    chance = random.Random(0)
    beginning = ids(chance, 70)
    return [drawn(chance, beginning) for _ in range(REQUESTS)]


@cache
def alone() -> list[Reply]:
    engine = load().engine.twin(exact=True, reuse=False)
    return [engine.run(request) for request in asked()]


def tensors(reply: Reply) -> Iterator[torch.Tensor]:
    yield from reply.rows.values()
    yield from reply.states.values()
    assert reply.stats is not None
    yield from (getattr(reply.stats, name) for name in reply.stats.__dataclass_fields__)
    if reply.sparse is not None:
        yield from (reply.sparse.ids, reply.sparse.weights, reply.sparse.covered)


def equal(found: Reply, expected: Reply) -> bool:
    pairs = list(zip(tensors(found), tensors(expected), strict=True))
    return (found.ids, found.finish) == (expected.ids, expected.finish) and all(torch.equal(*pair) for pair in pairs)


def beside_others(engine: Engine, seed: int) -> list[Reply]:
    """All requests in random order, with pauses in which some finish before others come."""
    chance = random.Random(seed)
    order = chance.sample(range(REQUESTS), REQUESTS)
    futures = {}
    for i in order:
        futures[i] = engine.submit(asked()[i])
        time.sleep(chance.choice([0.0, 0.0, 0.0, 0.01]))
    return [futures[i].result() for i in range(REQUESTS)]


@pytest.mark.parametrize("reuse", some([False, True], True))
@pytest.mark.parametrize("seed", some([1, 2], 1))
def test_replies_have_equal_bits_whatever_else_runs(seed: int, reuse: bool) -> None:
    engine = load().engine.twin(exact=True, reuse=reuse)

    found = beside_others(engine, seed)

    assert engine.statistics.widest > 2
    assert (engine.statistics.reused > 0) == reuse
    assert [i for i, (one, other) in enumerate(zip(found, alone(), strict=True)) if not equal(one, other)] == []


def test_what_was_read_before_changes_no_bit() -> None:
    engine = load().engine.twin(exact=True)

    first, again = ([engine.run(request) for request in asked()] for _ in range(2))

    assert sum(reply.usage.reused for reply in again) > sum(reply.usage.reused for reply in first) > 0
    assert all(map(equal, first, alone())) and all(map(equal, again, alone()))


def test_exact_replies_are_those_of_any_engine_within_float32() -> None:
    plain = load().engine.twin(reuse=False).run_all(asked())
    same = [one.ids == other.ids for one, other in zip(plain, alone(), strict=True)]
    assert sum(same) >= REQUESTS - 1  # a tie may fall either way
