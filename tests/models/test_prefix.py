"""What was read before is taken over as it was, as much as there is, and within a budget."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from sottovoce.core.errors import EngineError
from sottovoce.models import Engine, Feed, Ids, LoadedModel, Record, Request, Rows, Sampling, Stop
from sottovoce.models.engine.cache import KVCache, PrefixCache, chain
from sottovoce.models.engine.request import id_keys
from sottovoce.models.huggingface.passes import Kind
from tests.models.support import POSITION, busy, consistent, fresh, slots, spoiled, together, words
from tests.support import edit, request, rows, same_reply
from tests.tables import some

KIND = Kind(((0, 0), (0, 1)), heads=1, width=2, dtype=torch.float32, device=torch.device("cpu"))
COLUMNS = 40
EVERYTHING = Record((0, 1), stats=True, top=3)


class Store:
    """A cache beside one slot, in which each position holds a number made of all ids up to there."""

    def __init__(self, positions: int, block: int = 1) -> None:
        self.cache, self.block = PrefixCache(positions * KIND.nbytes, block), block
        self.slots = KVCache((KIND,))
        self.slots.resize(1, COLUMNS, [])
        self._numbers: dict[tuple[int, ...], float] = {}

    def _contents(self, ids: Sequence[int]) -> torch.Tensor:
        beginnings = (tuple(ids[: n + 1]) for n in range(len(ids)))
        return torch.tensor([self._numbers.setdefault(each, len(self._numbers) + 1.0) for each in beginnings])

    def read(self, *ids: int) -> None:
        """Keep what a slot holds after it has read `ids`."""
        self.slots.tensors[0][:, 0, :, : len(ids)] = self._contents(ids)[:, None]
        self.cache.store(chain(id_keys(ids), self.block), self.slots, 0)

    def taken(self, *ids: int) -> int:
        """How much of a prompt is taken over; all of it is checked to be what the prompt would hold."""
        self.slots.clear(0)
        n = self.cache.restore(chain(id_keys(ids), self.block), self.slots, 0)
        found, expected = self.slots.tensors[0][:, 0, 0], self._contents(ids)
        assert torch.equal(found[:, :n], expected[None, :n, None].expand(2, n, 2))
        assert not found[:, n:].any()
        return n

    @property
    def positions(self) -> float:
        return self.cache.nbytes / KIND.nbytes


def test_the_least_recently_used_goes_first() -> None:
    store = Store(24)
    store.read(*[1] * 8)
    store.read(*[2] * 8)
    store.read(*[3] * 8)
    store.taken(*[1] * 8)

    store.read(*[4] * 8)

    assert [store.taken(*[id] * 8) for id in (1, 2, 3, 4)] == [8, 0, 8, 8]


def test_the_end_of_a_conversation_goes_before_its_beginning() -> None:
    store = Store(24)
    store.read(*[1] * 8)
    store.read(*[1] * 16)
    store.taken(*[1] * 16)

    store.read(*[2] * 16)

    assert store.taken(*[1] * 16) == 8


@pytest.mark.parametrize(("budget", "block"), [(12, 1), (40, 4), (100, 1), (1000, 4)])
def test_growing_and_parting_conversations_are_restored_as_they_were(budget: int, block: int) -> None:
    chance, store = random.Random(budget), Store(budget, block)
    known: list[tuple[int, ...]] = [()]
    for _ in range(200):
        base = chance.choice(known[-30:])
        ids = (*base[: chance.choice([len(base), chance.randint(0, len(base))])],)
        ids = (*ids, *chance.choices(range(2), k=chance.randint(1, 9)))[:COLUMNS]
        store.taken(*ids[:-1])
        store.read(*ids)
        known.append(ids)
        if chance.random() < 0.05:
            store.cache.shrink(chance.randint(0, budget) * KIND.nbytes)
        assert consistent(store.cache)


# In the engine


@pytest.fixture
def loaded() -> LoadedModel:
    """A loaded model whose engine has no past."""
    return fresh()


def afresh(loaded: LoadedModel) -> Engine:
    """An engine of the same model that takes nothing over."""
    return loaded.engine.twin(reuse=False)


def grown(asked: Request, said: Ids | Rows, n: int = 5) -> Request:
    """The next round: all that was read, what was said, and n tokens more."""
    return replace(asked, prompt=(*asked.prompt, said, words(n, seed=asked.length)))


@pytest.mark.parametrize("length", [1, 8, 30])
def test_the_last_position_is_always_read_anew(loaded: LoadedModel, length: int) -> None:
    asked = request((words(length),), record=EVERYTHING)

    first, again = loaded.engine.run(asked), loaded.engine.run(asked)

    assert (first.usage.reused, again.usage.reused) == (0, length - 1)
    assert same_reply(again, first)


@pytest.mark.parametrize(
    ("asked", "n"),
    [
        (request((words(20),), 20, sampling=Sampling(1.0, seed=5), record=EVERYTHING), 20),
        (
            request(
                (words(20), rows(6), words(3)), 9, edits=(edit(0, 4, 20), edit(1, 2, 5, seed=1)), record=EVERYTHING
            ),
            9,
        ),
    ],
    ids=["sampled", "rows and edits"],
)
def test_a_next_round_reads_nothing_that_was_read_or_said_before(loaded: LoadedModel, asked: Request, n: int) -> None:
    fresh_engine = afresh(loaded)

    for _ in range(3):
        reply = loaded.engine.run(asked)
        assert same_reply(reply, fresh_engine.run(asked))
        before, asked = asked, grown(asked, Ids(reply.ids))

    assert loaded.engine.run(asked).usage.reused == before.length + n
    assert fresh_engine.statistics.reused == 0


def test_simultaneous_requests_with_one_beginning_compute_it_once(loaded: LoadedModel) -> None:
    asked = [request((words(100), words(9, seed=n)), record=EVERYTHING) for n in range(1, 13)]
    replies = together(loaded.engine, asked)

    assert [reply.usage.reused for reply in replies] == [0, *[100] * 11]
    assert loaded.engine.statistics.widest == 12
    assert all(map(same_reply, replies, map(afresh(loaded).run, asked)))


def test_a_prompt_that_fails_upon_a_good_beginning_spoils_it_for_nobody(loaded: LoadedModel) -> None:
    asked = request((words(30),), record=EVERYTHING)
    expected = loaded.engine.run(asked)
    for _ in range(3):
        with pytest.raises(EngineError, match="not finite"):
            loaded.engine.run(spoiled(words(30)))

    assert same_reply(loaded.engine.run(asked), expected)
    assert loaded.engine.run(asked).usage.reused == 29


def test_a_cancelled_reply_leaves_its_prompt_and_nothing_that_is_wrong(loaded: LoadedModel) -> None:
    asked = request((words(30),), 200, record=EVERYTHING)

    def leave(_text: str) -> None:
        leaving.cancel()

    with busy(loaded.engine):
        leaving = loaded.engine.submit(asked, leave)

    short = replace(asked, stop=Stop(8))
    reply = loaded.engine.run(short)

    assert leaving.cancelled() and reply.usage.reused == 29
    assert same_reply(reply, afresh(loaded).run(short))


@pytest.mark.parametrize("positions", some([0, 60, 200], 60))
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_interleaved_conversations_stay_right_within_a_small_budget(seed: int, positions: int) -> None:
    """Rounds of five conversations in random order and batches, longer than what the budget leaves for prefixes."""
    chance, budget = random.Random(seed), slots(320, rows=3) + positions * POSITION
    loaded = fresh(memory=budget)
    plain, engine = afresh(loaded), loaded.engine
    talks = [request((words(20, seed=n),), 6, record=EVERYTHING) for n in range(3)]
    talks += [request((words(20), rows(4), words(3)), 6, record=EVERYTHING)]
    talks += [request((words(30),), 6, edits=(edit(0, 8, 9),), record=EVERYTHING)]

    for _ in range(16):
        chosen = chance.sample(range(5), chance.choice([1, 1, 3]))
        for at, reply in zip(chosen, engine.run_all([talks[at] for at in chosen]), strict=True):
            assert same_reply(reply, plain.run(talks[at]))
            talks[at] = grown(talks[at], Ids(reply.ids), chance.randint(1, 12))
            if talks[at].length > 300:
                talks[at] = request((words(20, seed=chance.randrange(99)),), 6, record=EVERYTHING)

    assert engine.statistics.cache_peak <= budget
    assert engine.statistics.reused > 0


# What changes without a request's saying so


def test_a_prompt_is_read_anew_once_any_engine_of_its_model_was_told_to_forget(loaded: LoadedModel) -> None:
    asked, twin = request((words(20),), record=EVERYTHING), loaded.engine.twin()
    loaded.engine.run(asked), twin.run(asked)
    with torch.no_grad():
        for parameter in loaded.network.layers[0].parameters():
            parameter.mul_(1.5)
    loaded.engine.forget()

    assert same_reply(loaded.engine.run(asked), afresh(loaded).run(asked))
    assert twin.run(asked).usage.reused == 0


def test_what_was_read_before_the_model_changed_is_not_kept_for_others_at_its_end(loaded: LoadedModel) -> None:
    steps = iter(range(6))

    def changes(_logits: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        if next(steps) == 3:
            for parameter in loaded.network.layers[0].parameters():
                parameter.mul_(1.5)
            loaded.engine.forget()
        return p

    loaded.engine.run(request((words(20),), 6, feed=Feed("mean", changes)))
    asked = request((words(20),), record=EVERYTHING)
    reply = loaded.engine.run(asked)

    assert reply.usage.reused == 0
    assert same_reply(reply, afresh(loaded).run(asked))


def test_a_prompt_is_read_anew_while_somebody_elses_hook_is_on_the_model(loaded: LoadedModel) -> None:
    asked = request((words(20),), record=EVERYTHING)
    loaded.engine.run(asked)
    handle = loaded.network.layers[0].register_forward_hook(lambda _module, _inputs, output: output + 1)
    hooked = loaded.engine.run(asked)
    expected = afresh(loaded).run(asked)
    handle.remove()

    assert same_reply(hooked, expected) and hooked.usage.reused == 0
    assert same_reply(loaded.engine.run(asked), afresh(loaded).run(asked))


def test_hooks_that_transformers_leaves_behind_are_not_somebody_elses(loaded: LoadedModel) -> None:
    asked = request((words(20),), record=EVERYTHING)
    loaded.engine.run(asked)
    loaded.model(torch.tensor([[5, 6, 7]]), output_hidden_states=True)

    assert loaded.engine.run(asked).usage.reused == 19
