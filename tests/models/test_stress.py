"""Many requests of all kinds from several threads, cancelled and failing ones among them: nothing is left."""

from __future__ import annotations

import gc
import random
import threading
import time
import weakref
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial

import pytest
import torch

from sottovoce.models import Edit, Engine, Feed, Ids, LoadedModel, Record, Reply, Request, Sampling, Stop
from sottovoce.models.engine.loop import Loop
from sottovoce.models.engine.request import Piece
from sottovoce.models.engine.sequence import Sequence
from tests.models.support import LIMIT, consistent, fails, fresh, hooks, living, slots, spoiled, words
from tests.support import FLOAT32, HIDDEN, edit, request, rows, same_reply

REQUESTS, CALLERS = 120, 5
ON_THEIR_WAY = 12  # of one caller
SURE = 20  # tokens; in longer replies some step is a tie, which may fall either way
BUDGET = slots(448, rows=12)
Matrix = torch.Tensor


def halved(_logits: Matrix, p: Matrix) -> Matrix:
    """Half of the weight on the most probable token."""
    return p / 2 + torch.nn.functional.one_hot(p.argmax(-1), p.shape[-1]) / 2


def drawn(chance: random.Random) -> Request:
    """Any request that says the same in any batch: means are fed back for two steps at most."""
    prompt: tuple[Piece, ...] = (words(chance.choice([8, 20, 60]), seed=chance.randrange(5)),)
    prompt += (words(chance.randint(1, 40), seed=chance.randrange(20)),) if chance.random() < 0.7 else ()
    prompt += (rows(chance.randint(1, 9), seed=chance.randrange(5)), Ids((7,))) if chance.random() < 0.2 else ()
    length = sum(map(len, prompt))
    edits = (edit(chance.randrange(2), chance.randrange(length - 4), 3),) if chance.random() < 0.2 else ()
    feed = chance.choice([Feed(), Feed(), Feed("mean"), Feed("mean", halved)])
    n = chance.randint(1, 2) if feed.kind == "mean" else chance.choice([1, 3, 8, 8, 20, 40, 90])
    stops = {"ids": (5, 9), "texts": ("ab", "is")} if chance.random() < 0.3 else {}
    record = Record(chance.choice([(), (0,), (0, 1)]), chance.random() < 0.5, chance.random() < 0.5, 3, 4)
    sampling = Sampling(
        chance.choice([0.0, 0.8]),
        chance.choice([1.0, 0.9]),
        chance.choice([0, 20]),
        chance.choice([1.0, 1.1]),
        chance.randrange(99),
    )
    return Request(prompt, Stop(n, **stops), edits, feed, sampling, record)  # type: ignore[arg-type]


def faulty(chance: random.Random) -> Request:
    """A request that fails inside: at its prompt, at a step, or in a caller's own function."""
    infinite = Edit(0, 3, torch.full((1, HIDDEN), torch.inf))
    return chance.choice(
        [
            spoiled(words(chance.randint(1, 60))),
            request((words(20),), edits=(infinite,)),
            request((words(9),), 5, feed=Feed("mean", lambda _, p: p * torch.nan)),
            request((words(9),), 5, feed=Feed("mean", fails)),
        ]
    )


@dataclass(eq=False)
class Call:
    """A request on its way, and what is known of its end beforehand."""

    asked: Request
    fails: bool
    future: Future[Reply]
    shown: list[str]


@dataclass(eq=False)
class End:
    """What became of a request; it holds nothing of the engine, as an error's traceback would."""

    asked: Request
    fails: bool
    shown: list[str]
    settled: bool
    reply: Reply | None = None
    error: str = ""

    @classmethod
    def of(cls, call: Call) -> End:
        future = call.future
        end = cls(call.asked, call.fails, call.shown, future.done())
        if end.settled and not future.cancelled():
            error = future.exception()
            end.error = f"{type(error).__name__}: {error}" if error else ""
            end.reply = None if error else future.result()
        return end

    @property
    def cancelled(self) -> bool:
        return self.reply is None and not self.error


def called(engine: Engine, seed: int) -> list[Call]:
    """What one caller asks, a few requests at a time; it listens to some and cancels some at any time."""
    chance, calls = random.Random(seed), list[Call]()
    for _ in range(REQUESTS // CALLERS):
        fails, shown = chance.random() < 0.04, list[str]()
        asked = faulty(chance) if fails else drawn(chance)
        listens = not fails and chance.random() < 0.3
        calls.append(Call(asked, fails, engine.submit(asked, shown.append if listens else None), shown))
        if chance.random() < 0.25:
            time.sleep(chance.choice([0.0, 0.001, 0.01]))
            chance.choice(calls[-ON_THEIR_WAY:]).future.cancel()
        if len(calls) > ON_THEIR_WAY:
            wait([calls[-ON_THEIR_WAY].future], LIMIT)
    wait([call.future for call in calls], LIMIT)
    return calls


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return fresh(max_batch=16, memory=BUDGET)


@pytest.fixture(scope="module")
def ends(loaded: LoadedModel) -> list[End]:
    with ThreadPoolExecutor(CALLERS) as pool:
        return [End.of(call) for calls in pool.map(partial(called, loaded.engine), range(CALLERS)) for call in calls]


def test_every_request_ends_as_it_should(loaded: LoadedModel, ends: list[End]) -> None:
    ended = [end for end in ends if not end.cancelled]

    assert all(end.settled for end in ends) and len(ends) == REQUESTS
    assert [end.error for end in ended if not end.fails] == [""] * sum(not end.fails for end in ended)
    assert {end.error.partition(":")[0] for end in ended if end.fails} == {"EngineError"}
    assert REQUESTS * 0.7 < len(ended) < REQUESTS * 0.95 and sum(end.fails for end in ended) > 2
    assert loaded.engine.statistics.requests == REQUESTS
    assert loaded.engine.statistics.widest == loaded.engine.limits.slots


def test_who_was_not_cancelled_got_what_it_gets_alone(loaded: LoadedModel, ends: list[End]) -> None:
    sure = [(end.asked, end.reply) for end in ends if end.reply is not None and end.asked.stop.max_new <= SURE]
    engine = loaded.engine.twin(reuse=False)

    for asked, reply in random.Random(0).sample(sure, 30):
        # Means fed back make more of what float32 rounds; another row's numbers would be other ones altogether.
        alone, relative = engine.run(asked), FLOAT32 if asked.feed.kind == "token" else 1e-3
        assert same_reply(reply, alone, relative), (asked, reply, alone)
    engine.close()


def test_what_was_shown_grew_up_to_the_reply(loaded: LoadedModel, ends: list[End]) -> None:
    text = loaded.detokenizer(special=False).text
    heard = [(end.shown, end.reply) for end in ends if end.shown and end.reply is not None]

    assert len(heard) > 8
    for shown, reply in heard:
        assert shown[-1] == text(reply.ids)
        assert all(shown[-1].startswith(part) for part in shown)


def test_nothing_is_left_over(loaded: LoadedModel, ends: list[End]) -> None:
    loaded.engine.run(request())  # so that the turn of the last has ended
    (loop,) = [each for each in living(Loop) if each.scheduler._network is loaded.network]
    scheduler = loop.scheduler

    assert not scheduler.busy and not scheduler.running and not scheduler.decoding
    asked = {id(end.asked) for end in ends}
    assert [each for each in living(Sequence) if id(each.request) in asked] == []
    assert hooks(loaded.model) == 0
    caches = scheduler.caches
    assert consistent(caches.prefixes) and caches.prefixes.nbytes > 0
    assert caches.nbytes <= loaded.engine.statistics.cache_peak <= BUDGET
    assert all(tensor.isfinite().all() for tensor in caches.kv.tensors)


def test_a_closed_engine_gives_its_thread_and_its_memory_back(loaded: LoadedModel, ends: list[End]) -> None:
    threads = threading.active_count()
    (loop,) = [each for each in living(Loop) if each.scheduler._network is loaded.network]
    caches = loop.scheduler.caches
    watched = [weakref.ref(each) for each in (loop, caches, caches.prefixes, *caches.kv.tensors)]
    del loop, caches

    loaded.engine.close()
    gc.collect()

    assert [each() for each in watched] == [None] * len(watched)
    assert threading.active_count() == threads - 1
