"""Keys and values as tensors: what moves, what stays, and what a model sees of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from transformers import DynamicCache

from sottovoce.models import Cached, Edit, Ids, Request, Rows
from sottovoce.models.engine.cache import KVCache, chain
from sottovoce.models.engine.request import position_keys
from sottovoce.models.huggingface.family import cache_argument
from sottovoce.models.huggingface.passes import CacheView, Kind, kinds_of
from tests.models.support import POSITION
from tests.support import HIDDEN, edit, noise, request, tiny_loaded

CPU = torch.device("cpu")
KINDS = (
    Kind(((0, 0), (0, 1), (1, 0), (1, 1)), heads=2, width=3, dtype=torch.float32, device=CPU),
    Kind(((2, 0),), heads=1, width=5, dtype=torch.float16, device=CPU),
)


def filled(rows: int = 4, columns: int = 6) -> KVCache:
    """A store of two kinds in which no two numbers of a kind are equal."""
    kv = KVCache(KINDS)
    kv.resize(rows, columns, [])
    for tensor in kv.tensors:
        tensor.copy_(torch.arange(1, tensor.numel() + 1).view(tensor.shape))
    return kv


def copied(kv: KVCache) -> list[torch.Tensor]:
    return [tensor.clone() for tensor in kv.tensors]


@pytest.mark.parametrize(("rows", "columns"), [(4, 9), (7, 4), (2, 3)])
def test_another_size_keeps_the_columns_in_use_and_is_zero_elsewhere(rows: int, columns: int) -> None:
    kv, used = filled(), [3, 1]
    before = copied(kv)

    kv.resize(rows, columns, used)

    assert (kv.slots, kv.columns) == (rows, columns)
    for tensor, old in zip(kv.tensors, before, strict=True):
        assert tensor.shape[1] == rows and tensor.shape[3] == columns + 1
        for row, n in enumerate(used):
            assert torch.equal(tensor[:, row, :, :n], old[:, row, :, :n])
            tensor[:, row, :, :n] = 0
        assert not tensor.any()


def test_a_move_reaches_as_far_as_it_is_told_leaves_zeros_and_touches_no_other_slot() -> None:
    kv = filled()
    expected = copied(kv)
    for tensor in expected:
        tensor[:, 2, :, :4] = tensor[:, 0, :, :4]
        tensor[:, 0, :, :4] = 0

    kv.move(0, 2, 4)

    assert all(map(torch.equal, kv.tensors, expected))


def test_a_model_writes_at_given_columns_and_reads_up_to_the_last_one_asked_for() -> None:
    kv, columns = filled(), torch.tensor([[2, 3], [6, 1]])  # the second row's first query is padding
    before = copied(kv)
    cache = CacheView(KINDS, kv.window(1, 3), columns, 4)
    keys, values = noise(2, 2, 2, 3), noise(2, 2, 2, 3, seed=1)

    seen, _ = cache.update(keys, values, 1)

    store, old = kv.tensors[0], before[0]
    assert seen.shape == (2, 2, 4, 3)
    assert torch.equal(seen, store[2, 1:3, :, :4])
    assert torch.equal(store[2, 1, :, 2:4], keys[0])
    assert torch.equal(store[3, 2, :, 1], values[1, :, 1])
    assert torch.equal(store[2, 2, :, 6], keys[1, :, 0])  # in the spare column
    assert torch.equal(store[:2], old[:2]) and torch.equal(store[:, [0, 3]], old[:, [0, 3]])


def test_tensors_of_one_shape_are_kept_together() -> None:
    cache = DynamicCache()
    with torch.inference_mode():
        tiny_loaded().model(input_ids=torch.tensor([[5, 6]]), **{cache_argument(tiny_loaded().model): cache})

    (kind,) = kinds_of(cache)

    assert sorted(kind.members) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert kind.nbytes == POSITION


# Keys of positions

IDS, LATENT = Ids((5, 6, 7, 8)), noise(4, HIDDEN)
DELTA = noise(3, HIDDEN, seed=1)
ASKED = request((IDS, Rows(LATENT), Ids((9, 10))), edits=(Edit(0, 2, DELTA),))


def keys(asked: Request) -> list[bytes]:
    return position_keys(asked, torch.float32)


def changed(values: torch.Tensor, at: int) -> torch.Tensor:
    """The last bit of one number of a row is another one."""
    values = values.clone()
    values[at, HIDDEN // 2] = torch.nextafter(values[at, HIDDEN // 2], torch.tensor(torch.inf))
    return values


@pytest.mark.parametrize(
    ("other", "apart"),
    [
        (replace(ASKED, prompt=(Ids((5, 11, 7, 8)), *ASKED.prompt[1:])), [1]),
        (replace(ASKED, prompt=(IDS, Rows(changed(LATENT, 3)), Ids((9, 10)))), [7]),
        (replace(ASKED, prompt=(IDS, Rows(LATENT[[1, 0, 2, 3]]), Ids((9, 10)))), [4, 5]),
        (replace(ASKED, prompt=(IDS, Ids((1, 2, 3, 4)), Ids((9, 10)))), [4, 5, 6, 7]),
        (replace(ASKED, edits=(Edit(1, 2, DELTA),)), [2, 3, 4]),
        (replace(ASKED, edits=(Edit(0, 2, DELTA[:2]),)), [4]),
        (replace(ASKED, edits=(Edit(0, 2, changed(DELTA, 1)),)), [3]),
        (replace(ASKED, edits=(*ASKED.edits, edit(0, 9, 1, seed=3))), [9]),
    ],
    ids=[
        "an id",
        "a bit of a row",
        "rows in another order",
        "ids for rows",
        "another layer",
        "a shorter edit",
        "a bit of a delta",
        "an edit more",
    ],
)
def test_keys_tell_apart_where_prompts_part(other: Request, apart: list[int]) -> None:
    pairs = zip(keys(ASKED), keys(other), strict=True)
    assert [at for at, (one, another) in enumerate(pairs) if one != another] == apart


def test_keys_of_received_positions_depend_on_how_they_are_read() -> None:
    whole, first = torch.ones(2, 1, 3, 4), torch.ones(1, 1, 1, 4)
    masked = torch.zeros(3, 3, dtype=torch.bool)
    masked[2, 2] = True
    piece = Cached(whole, whole, (0, 2), torch.arange(3), first, first, masked=masked)
    others = [replace(piece, **change) for change in ({"causal": False}, {"masked": None}, {"turned": False})]
    found = [key for each in (piece, *others) for key in keys(request((each, Ids((9, 10)))))[:3]]
    assert len({*found}) == 12
    later = [keys(request((others[0], Ids((9, last))))) for last in (10, 11)]
    assert not {*later[0]} & {*later[1]}  # they see what follows


@pytest.mark.parametrize(
    "other",
    [
        replace(ASKED, prompt=(IDS, Rows(LATENT.double()), Ids((9, 10)))),
        replace(ASKED, prompt=(IDS, Rows(torch.cat([DELTA, LATENT])[3:]), Ids((9, 10)))),
        replace(ASKED, prompt=(IDS, Rows(LATENT[:1]), Rows(LATENT[1:]), Ids((9,)), Ids(()), Ids((10,)))),
        replace(ASKED, edits=(Edit(0, 2, DELTA[:1]), Edit(0, 3, DELTA[1:]))),
    ],
    ids=["float64", "a part of a larger one", "other pieces", "an edit in two"],
)
def test_equal_contents_have_equal_keys_whatever_holds_them(other: Request) -> None:
    assert keys(other) == keys(ASKED)


def test_rows_count_as_they_enter_a_model_of_less_precision() -> None:
    finer = replace(ASKED, prompt=(IDS, Rows(changed(LATENT, 0)), Ids((9, 10))), edits=())
    coarse = replace(ASKED, edits=())

    assert position_keys(finer, torch.bfloat16) == position_keys(coarse, torch.bfloat16)
    assert position_keys(finer, torch.float32) != position_keys(coarse, torch.float32)


# Blocks


def test_blocks_are_whole_and_name_all_that_precedes_them() -> None:
    one = keys(request((Ids(tuple(range(20))),)))
    other = keys(request((Ids((*range(9), 99, *range(10, 20))),)))

    found, expected = chain(one, 4), chain(other, 4)

    assert len(found) == 5 and len(chain(one[:19], 4)) == 4
    assert [a == b for a, b in zip(found, expected, strict=True)] == [True, True, False, False, False]


@pytest.mark.parametrize("known", range(6))
def test_a_chain_goes_on_from_what_is_known(known: int) -> None:
    all_keys = keys(request((Ids(tuple(range(20))),)))
    whole = chain(all_keys, 4)
    assert chain(all_keys, 4, whole[:known]) == whole
