"""Means of embeddings and their nearest tokens, which are looked up when somebody needs them and no sooner."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from sottovoce.models import Engine, Feed, Record, Request, Sampling, Stop, Table, assemble
from sottovoce.models.engine.recorder import LATER, MAX_PENDING, Means, Pending, Recent, Recorder
from sottovoce.models.huggingface import embedding_table
from tests.models.support import fresh
from tests.support import VOCABULARY, noise, request, text, tiny_loaded, tiny_model, tiny_tokenizer

MEAN = Feed("mean")
FAR = 299  # a token that no tiny model's mean comes near to

Matrix = torch.Tensor


@pytest.fixture(autouse=True)
def as_large_tables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding_table, "SMALL", 0)


class Watched(Table):
    """A table that counts the rows that it was looked through for, call by call."""

    def __init__(self, rows: Matrix) -> None:
        super().__init__(rows)
        self.looks: list[int] = []

    def _look_through(self, rows: Matrix) -> Matrix:
        self.looks.append(len(rows))
        return super()._look_through(rows)


def watched() -> tuple[Engine, Watched]:
    loaded = fresh()
    loaded.network.table = Watched(loaded.table.rows)
    return loaded.engine, loaded.network.table


def asked(temperature: float, n: int = 40, **options: object) -> Request:
    return request(**{"stop": Stop(n), "feed": MEAN, "sampling": Sampling(temperature), **options})  # type: ignore[arg-type]


def of_two(one: int, other: int) -> Feed:
    """Averages two tokens half and half, whatever the model says; the first one is the heavier by a hair."""

    def weigh(_logits: Matrix, p: Matrix) -> Matrix:
        weights = torch.zeros_like(p)
        weights[:, one], weights[:, other] = 0.501, 0.499
        return weights

    return Feed("mean", weigh)


@pytest.mark.parametrize(("family", "temperature"), [("qwen2", 0.3), ("gemma2", 1.0), ("gpt2", 3.0)])
def test_the_ids_of_a_reply_are_the_nearest_of_each_mean(family: str, temperature: float) -> None:
    loaded = tiny_loaded(family)

    reply = loaded.engine.run(asked(temperature, stop=Stop(40, (FAR,))))

    (rows,) = reply.rows.values()
    assert list(reply.ids) == [int(loaded.table.nearest(row[None])) for row in rows]


@pytest.mark.parametrize(("temperature", "by"), [(0.3, "token"), (1.0, "nearest")])
def test_a_reply_ends_where_the_first_mean_is_nearest_to_a_stop(temperature: float, by: str) -> None:
    engine = tiny_loaded().engine.twin(reuse=False)  # feedback amplifies other orders of sums
    whole = engine.run(asked(temperature)).ids
    for stop in list(dict.fromkeys(whole))[::5]:
        found = engine.run(asked(temperature, stop=Stop(40, (FAR, stop), by=by)))  # type: ignore[arg-type]
        assert (found.ids, found.finish) == (whole[: whole.index(stop)], "stop")


def test_a_stop_between_two_tokens_is_the_nearest_of_their_mean() -> None:
    model, (one, other, stop) = tiny_model(), (200, 90, 7)
    table = model.get_input_embeddings().weight
    assert isinstance(table, torch.Tensor)
    table.data[stop] = table.data[[one, other]].mean(0)  # nearer to it than its heaviest token
    engine = assemble("between", model, tiny_tokenizer()).engine
    half = asked(1.0, 5, feed=of_two(one, other))

    ended, went_on = engine.run_all([replace(half, stop=Stop(5, (stop,), by=by)) for by in ("nearest", "argmax")])

    assert (ended.ids, ended.finish) == ((), "stop")
    assert (went_on.ids, went_on.finish) == ((stop,) * 5, "length")


def test_of_two_equal_rows_the_first_is_the_stop_that_counts() -> None:
    model, (first, twin) = tiny_model(), (7, 200)
    table = model.get_input_embeddings().weight
    assert isinstance(table, torch.Tensor)
    table.data[twin] = table.data[first]
    engine = assemble("twins", model, tiny_tokenizer()).engine

    for heavier, other in ((first, twin), (twin, first)):
        ends = [engine.run(asked(1.0, 3, feed=of_two(heavier, other), stop=Stop(3, (id,)))) for id in (first, twin)]
        assert [each.finish for each in ends] == ["stop", "length"]


@pytest.mark.parametrize("temperature", [0.3, 1.0])
def test_stop_strings_streaming_and_statistics_change_no_id(temperature: float) -> None:
    engine, plain = tiny_loaded().engine.twin(reuse=False), asked(temperature)
    whole = engine.run(plain)
    seen: list[str] = []

    streamed = engine.submit(plain, seen.append).result()
    counted = engine.run(replace(plain, record=Record(stats=True)))
    tail = text(whole.ids)[-2:]
    cut = engine.run(replace(plain, stop=Stop(40, texts=(tail,))))

    assert streamed.ids == counted.ids == whole.ids
    assert text(whole.ids).startswith(seen[-1]) and len(seen) > 1
    assert cut.finish == "stop_text" and cut.ids == whole.ids[: len(cut.ids)]
    assert text(cut.ids) == text(whole.ids)[: len(text(cut.ids))] and tail not in text(cut.ids)


@pytest.mark.parametrize("n", [32, 70])
def test_log_probabilities_are_those_of_the_nearest_tokens(n: int) -> None:
    reply = tiny_loaded().engine.run(asked(1.0, n, record=Record(stats=True, top=VOCABULARY)))

    assert reply.stats is not None and len(reply.ids) == n
    of_ids = reply.stats.top_ids == torch.tensor(reply.ids)[:, None]
    assert torch.equal(reply.stats.logprob, reply.stats.top_logprobs[of_ids])


# When the table is looked through


def test_a_reply_that_nobody_reads_along_is_looked_up_once() -> None:
    engine, table = watched()

    reply = engine.run(asked(0.3, 20, stop=Stop(20, (FAR,))))

    assert len(reply.ids) == 20
    assert len(table.looks) == 1


def test_a_token_that_is_surely_the_nearest_needs_no_look() -> None:
    engine, table = watched()
    mostly = Feed("mean", lambda _, p: torch.full_like(p, 1e-5).index_fill(1, torch.tensor([200]), 1.0))

    reply = engine.run(asked(1.0, 20, feed=mostly, stop=Stop(20, (FAR,))))

    assert reply.ids == (200,) * 20
    assert sum(table.looks) == 0


def test_an_exact_engine_looks_every_step_up_in_one_shape() -> None:
    loaded = fresh()
    loaded.network.table = table = Watched(loaded.table.rows)

    loaded.engine.twin(exact=True, max_batch=8).run(asked(1.0, 6))

    assert table.looks == [8] * 6


# Nearest tokens that are looked up together


class Weak(Table):
    """A table that is looked through once memory suffices."""

    enough = False

    def _look_through(self, rows: torch.Tensor) -> torch.Tensor:
        if not self.enough:
            raise MemoryError("too little")
        return super()._look_through(rows)


def waiting(table: Table, n: int) -> tuple[list[int], list[int], Recent, Pending]:
    """The tokens of two sequences after n passes, of which those of the second's means are not looked up."""
    pending = Pending(table)
    drawn, averaged = Recorder(Record(), pending), Recorder(Record(), pending, tables=[table.key])
    recent = Recent([drawn, averaged], pending)
    for i in range(n):
        guess = torch.zeros(1, dtype=torch.long)
        recent.add({}, noise(2, 50), [Means([1], {table.key: table.rows[i % 50][None]}, guess, noise(1, 0))])
        drawn.ids.append(4)
        averaged.ids.append(LATER)
    return drawn.ids, averaged.ids, recent, pending


def test_a_lookup_takes_no_more_than_it_may_at_a_time() -> None:
    table = Watched(noise(50, 8))
    _, averaged, recent, pending = waiting(table, MAX_PENDING + 3)
    recent.settle()
    assert averaged == [*(i % 50 for i in range(MAX_PENDING)), *[LATER] * 3]
    pending.look_up()

    assert averaged == [i % 50 for i in range(MAX_PENDING + 3)] and len(table.looks) == 2


def test_where_memory_runs_out_they_still_wait() -> None:
    table = Weak(noise(50, 8))
    _, averaged, recent, pending = waiting(table, 3)
    recent.settle()

    with pytest.raises(MemoryError):
        pending.look_up()
    table.enough = True
    pending.look_up()

    assert averaged == [0, 1, 2]
