"""Keys and values within their budget: what is estimated, what gives way, and what is told where it is too small."""

from __future__ import annotations

import gc
import random
from pathlib import Path

import pytest
import torch

from sottovoce.core.errors import EngineError
from sottovoce.models import Feed, Request, Sampling
from sottovoce.models.engine.cache import LEAST, _managers, default_budget
from sottovoce.models.huggingface.devices import CGROUP_FILES, free_memory, left_in_container
from sottovoce.models.huggingface.passes import Kind
from tests.models.support import LIMIT, busy, fresh, slots, together, words
from tests.support import edit, request, rows
from tests.tables import some

CPU, META = torch.device("cpu"), torch.device("meta")


@pytest.mark.parametrize("n", [1, 3])
def test_as_many_rows_decode_together_as_fit(n: int) -> None:
    engine = fresh(memory=slots(64, rows=n)).engine
    replies = together(engine, [request(f"What is {k}?") for k in range(10)])

    assert all(len(each.ids) == 8 for each in replies)
    assert engine.statistics.widest == n


def test_a_request_larger_than_the_budget_is_told_in_numbers_and_the_others_go_on() -> None:
    engine = fresh(memory=slots(128)).engine
    with busy(engine):
        small = [engine.submit(request()) for _ in range(2)]
        large = engine.submit(request((words(100),), 50))
        later = engine.submit(request())

    complaint = (
        r"a prompt of 100 tokens and a reply of up to 50 need 49.4 kB for keys and values, "
        r"but the budget is 33 kB; shorten the prompt, lower max_tokens, or"
    )
    with pytest.raises(EngineError, match=complaint):
        large.result(LIMIT)
    assert all(len(each.result(LIMIT).ids) == 8 for each in (*small, later))


def drawn(chance: random.Random) -> Request:
    prompt = (words(chance.choice([3, 20, 90]), seed=chance.randrange(4)), words(chance.randint(1, 60), seed=9))
    feed = chance.choice([Feed(), Feed(), Feed("mean")])
    edits = (edit(0, 1, 2),) if chance.random() < 0.3 else ()
    pieces = (*prompt, rows(3)) if chance.random() < 0.3 else prompt
    return request(pieces, chance.choice([1, 5, 40, 120]), feed=feed, edits=edits, sampling=Sampling(1.0))


@pytest.mark.parametrize("seed", some([0, 1], 0))
def test_what_is_held_stays_within_the_budget_in_any_mix(seed: int) -> None:
    chance, budget = random.Random(seed), slots(320, rows=4)
    engine = fresh(memory=budget).engine

    for _ in range(3):
        engine.run_all([drawn(chance) for _ in range(12)])
        assert engine.statistics.cache <= budget

    assert engine.statistics.reused > 0 and engine.statistics.widest > 3
    assert budget // 2 < engine.statistics.cache_peak <= budget


def test_one_long_request_among_many_short_ones_makes_room_for_them_when_it_ends() -> None:
    engine = fresh(memory=slots(512, rows=2)).engine
    with busy(engine):
        engine.submit(request((words(300),), 8))
        ongoing = engine.submit(request(max_new=50))
        submitted = [engine.submit(request(max_new=20)) for _ in range(10)]
    assert all(each.result(LIMIT) for each in (ongoing, *submitted))

    assert engine.statistics.widest > 4


# Words and numbers


def test_a_model_on_two_devices_may_fill_the_one_that_has_least_room() -> None:
    kind = Kind(((0, 0),), 2, 8, torch.float32, CPU)

    alone = default_budget([kind])

    assert 0 < alone < free_memory(CPU)
    assert default_budget([kind, kind]) == pytest.approx(alone, rel=0.1)  # others use memory meanwhile


class Promised:
    """An engine, as far as others look at it, on a device where no other test has one."""

    def __init__(self, share: float) -> None:
        self._nbytes = int(share * free_memory(META))
        _managers.add(self)  # type: ignore[arg-type]  # all that they are asked

    def may_take(self, device: torch.device) -> int:
        return self._nbytes if device == META else 0


def test_a_second_engine_counts_on_what_the_first_one_may_not_take() -> None:
    kind = Kind(((0, 0),), 2, 8, torch.float32, META)
    before = default_budget([kind])

    half = Promised(0.5)
    second = default_budget([kind])
    whole = Promised(2.0)
    third = default_budget([kind])
    del half, whole
    gc.collect()

    assert second == pytest.approx(0.5 * before, rel=0.1)
    assert third == pytest.approx(LEAST * before, rel=0.1)  # promised was more than there is
    assert default_budget([kind]) == pytest.approx(before, rel=0.1)


@pytest.mark.parametrize(("limit", "used"), CGROUP_FILES)
def test_the_limit_of_a_container_is_kept(limit: str, used: str, tmp_path: Path) -> None:
    (tmp_path / limit).parent.mkdir(exist_ok=True)
    (tmp_path / used).write_text("1000\n")
    (tmp_path / limit).write_text("max\n")
    unlimited = left_in_container(tmp_path)
    (tmp_path / limit).write_text("5000\n")

    assert min(unlimited) > 10**15
    assert left_in_container(tmp_path) == [4000]
