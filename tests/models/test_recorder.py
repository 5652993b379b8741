"""What replies keep, a few steps at a time, against the same numbers made position by position."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch

from sottovoce.models import Feed, Record, Reply, Sampling, Table
from sottovoce.models.engine import sampling
from sottovoce.models.engine.recorder import STEPS, Means, Pending, Recent, Recorder
from sottovoce.models.huggingface.passes import FINAL
from tests.models.support import fresh, words
from tests.support import HIDDEN, close, noise, request

EVERYTHING = Record((0, 1), stats=True, top=3, sparse=4)
TABLE = Table(noise(50, 4, seed=99))
LENGTHS = [1, STEPS, 2 * STEPS + 5]


def told(n: int, record: Record = EVERYTHING, *, size: int = 50) -> Recorder:
    """A recorder that was told of n positions and the prompt's last, as row 1 of a batch of 3."""
    pending = Pending(TABLE)
    tables = [TABLE.key, "other"] if record.sparse else []
    recorders = [Recorder(record, pending, None, tables) for _ in range(3)]
    recent = Recent(recorders, pending)
    for at in range(n + 1):
        logits = noise(3, size, seed=at)
        weights = logits.softmax(-1)
        means = {TABLE.key: noise(3, 4, seed=at), "other": noise(3, 6, seed=at)}
        recent.add(states(at), logits, [Means(range(3), means, weights.argmax(-1), weights)] if tables else [])
        for each in recorders:
            each.ids.append(at % size)
        if recent.full:
            recent.settle()
    return recorders[1]


def states(at: int) -> dict[int, torch.Tensor]:
    return {layer: noise(3, HIDDEN, seed=1000 * (layer + 2) + at) for layer in (0, 1, FINAL)}


@pytest.mark.parametrize(("n", "size"), [*((n, 50) for n in LENGTHS), (3, 1 << 18)])
def test_states_and_numbers_are_those_of_each_position_alone(n: int, size: int) -> None:
    recorder = told(n, size=size)
    for layer, found in recorder.states(n + 1).items():
        assert torch.equal(found, torch.stack([states(at)[layer][1] for at in range(n + 1)]))
    stats, sparse = recorder.stats(n), recorder.sparse(n)
    logits = torch.stack([noise(3, size, seed=at)[1] for at in range(n)])
    each = [
        sampling.statistics(*sampling.moments(row[None], torch.tensor([at % size]), 0))[0]
        for at, row in enumerate(logits)
    ]
    best, weighty = logits.log_softmax(-1).topk(3), logits.softmax(-1).topk(4)

    assert stats is not None and sparse is not None
    numbers = torch.stack([stats.logprob, stats.entropy, stats.varentropy, stats.kurtosis], -1)
    assert close(numbers, torch.cat(each))
    assert torch.equal(stats.top_ids, best.indices) and close(stats.top_logprobs, best.values)
    assert torch.equal(sparse.ids, weighty.indices) and close(sparse.weights, weighty.values)
    assert close(sparse.covered, weighty.values.sum(-1))


@pytest.mark.parametrize("n", [0, 1, STEPS, STEPS + 3])
def test_a_reply_that_was_cut_keeps_the_first_positions(n: int) -> None:
    whole, cut = told(2 * STEPS + 5), told(2 * STEPS + 5)
    stats, all_stats = cut.stats(n), whole.stats(2 * STEPS + 5)

    assert stats is not None and all_stats is not None
    assert torch.equal(stats.entropy, all_stats.entropy[:n]) and torch.equal(stats.top_ids, all_stats.top_ids[:n])
    assert torch.equal(cut.states(n + 1)[1], whole.states(2 * STEPS + 6)[1][: n + 1])
    assert {len(means) for means in cut.mean_rows(n).values()} <= {n}
    assert n == 0 or cut.sparse(n).ids.shape == (n, 4)  # type: ignore[union-attr]  # there is one


def test_the_last_layers_state_may_be_the_one_after_the_norm() -> None:
    pending = Pending(TABLE)
    recorder = Recorder(Record((0, 1), final_norm=True), pending, 1)
    Recent([recorder], pending).add({layer: rows[2:] for layer, rows in states(0).items()}, noise(1, 50))

    assert torch.equal(recorder.states(1)[0][0], states(0)[0][2])
    assert torch.equal(recorder.states(1)[1][0], states(0)[FINAL][2])


def test_what_is_not_asked_for_is_not_kept() -> None:
    pending, logits = Pending(TABLE), noise(1, 50)
    recorder = Recorder(Record(), pending)
    watched, seen = weakref.ref(logits), states(0)
    recent = Recent([recorder], pending)
    watched_states = weakref.ref(seen[0])

    recent.add(seen, logits)
    recorder.ids.append(7)
    del logits, seen
    gc.collect()

    assert watched() is None and watched_states() is None
    assert (recorder.states(1), recorder.mean_rows(1), recorder.stats(1), recorder.sparse(1)) == ({}, {}, None, None)


# Memory


def held(tensors: list[torch.Tensor]) -> int:
    """Bytes of the memory that they keep alive."""
    return sum({each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in tensors}.values())


def parts(reply: Reply) -> list[torch.Tensor]:
    assert reply.stats is not None
    numbers = [getattr(reply.stats, name) for name in reply.stats.__dataclass_fields__]
    return [*reply.states.values(), *reply.rows.values(), *numbers]


def test_a_step_is_forgotten_once_its_numbers_are_made() -> None:
    pending = Pending(TABLE)
    recorders = [Recorder(EVERYTHING, pending, None, ["own"]) for _ in range(64)]
    recent, watched = Recent(recorders, pending), []
    for at in range(STEPS):
        step, seen = noise(64, 500, seed=at), {layer: noise(64, HIDDEN) for layer in (0, 1)}
        weights = step.softmax(-1)
        watched += [weakref.ref(each) for each in (step, seen[0], seen[1], weights)]
        recent.add(seen, step, [Means(range(64), {"own": seen[0]}, weights.argmax(-1), weights)])
        for each in recorders:
            each.ids.append(at)
    del step, seen, weights
    assert recent.full
    recent.settle()

    assert [each() for each in watched] == [None] * len(watched)


def test_a_reply_holds_no_memory_of_its_neighbours() -> None:
    engine = fresh().engine
    asked = [
        request((words(9, seed=n),), 40, feed=feed, sampling=Sampling(1.0), record=EVERYTHING)
        for n in range(8)
        for feed in (Feed(), Feed("mean"))
    ]

    for reply in engine.run_all(asked):
        assert held(parts(reply)) <= 2 * sum(part.nbytes for part in parts(reply))
    assert engine.statistics.widest == 16


@pytest.mark.parametrize("sparse", [0, 4])
def test_only_weights_that_are_recorded_are_held(sparse: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Seen: views of no columns kept the weights of 32 passes, uncounted.
    loaded, sizes, add = fresh(), set[int](), Recent.add

    def watch(recent: Recent, states: Any, logits: torch.Tensor, mean_rows: list[Means]) -> None:
        sizes.update(means.weights.untyped_storage().nbytes() for means in mean_rows)
        add(recent, states, logits, mean_rows)

    monkeypatch.setattr(Recent, "add", watch)
    loaded.engine.run(request((words(5),), 8, feed=Feed("mean"), record=Record(sparse=sparse)))

    assert sizes == {4 * len(loaded.table) if sparse else 0}
