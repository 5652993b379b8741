"""Keys and values as tensors: what moves, what stays, and what a model sees of them."""

from __future__ import annotations

import pytest
import torch
from transformers import DynamicCache

from sottovoce.models.slots import Kind, SlotCache, Slots, kinds_of
from tests.models.support import POSITION
from tests.support import noise, tiny_loaded

CPU = torch.device("cpu")
KINDS = (
    Kind(((0, 0), (0, 1), (1, 0), (1, 1)), heads=2, width=3, dtype=torch.float32, device=CPU),
    Kind(((2, 0),), heads=1, width=5, dtype=torch.float16, device=CPU),
)


def filled(rows: int = 4, columns: int = 6) -> Slots:
    """A store of two kinds in which no two numbers of a kind are equal."""
    slots = Slots(KINDS)
    slots.resize(rows, columns, [])
    for tensor in slots.tensors:
        tensor.copy_(torch.arange(1, tensor.numel() + 1).view(tensor.shape))
    return slots


def copied(slots: Slots) -> list[torch.Tensor]:
    return [tensor.clone() for tensor in slots.tensors]


@pytest.mark.parametrize(("rows", "columns"), [(2, 6), (4, 9), (7, 4), (2, 3), (4, 6)])
def test_another_size_keeps_the_columns_in_use_and_is_zero_elsewhere(rows: int, columns: int) -> None:
    slots, used = filled(), [3, 1]
    before = copied(slots)

    slots.resize(rows, columns, used)

    assert (slots.rows, slots.columns) == (rows, columns)
    for tensor, old in zip(slots.tensors, before, strict=True):
        assert tensor.shape[1] == rows and tensor.shape[3] == columns + 1
        for row, n in enumerate(used):
            assert torch.equal(tensor[:, row, :, :n], old[:, row, :, :n])
            tensor[:, row, :, :n] = 0
        assert not tensor.any()


def test_the_size_told_beforehand_is_what_the_tensors_take() -> None:
    slots = filled(5, 7)

    assert slots.nbytes(5, 7) == sum(tensor.numel() * tensor.element_size() for tensor in slots.tensors)
    assert Slots(KINDS).nbytes(0, 0) == 0


def test_a_copy_reaches_as_far_as_it_is_told_and_touches_no_other_slot() -> None:
    slots = filled()
    expected = copied(slots)
    for tensor in expected:
        tensor[:, 2, :, :4] = tensor[:, 0, :, :4]

    slots.copy(0, 2, 4)

    assert all(map(torch.equal, slots.tensors, expected))


def test_a_swap_exchanges_two_slots_and_a_second_one_takes_it_back() -> None:
    slots = filled()
    before, expected = copied(slots), copied(slots)
    for tensor, old in zip(expected, before, strict=True):
        tensor[:, 1, :, :5], tensor[:, 3, :, :5] = old[:, 3, :, :5], old[:, 1, :, :5]

    slots.swap(1, 3, 5)
    assert all(map(torch.equal, slots.tensors, expected))
    slots.swap(3, 1, 5)
    assert all(map(torch.equal, slots.tensors, before))


def test_what_was_cut_stays_as_it_was_and_can_be_put_elsewhere_in_part() -> None:
    slots = filled()
    before = copied(slots)

    pages = slots.cut(1, 2, 6)
    slots.clear(1)
    slots.paste(3, 0, 1, pages, 3)

    for tensor, page, old in zip(slots.tensors, pages, before, strict=True):
        assert torch.equal(page, old[:, 1, :, 2:6])
        assert torch.equal(tensor[:, 3, :, :3], old[:, 1, :, 3:6])
        assert torch.equal(tensor[:, 3, :, 3:], old[:, 3, :, 3:])


def test_a_cleared_slot_is_finite_in_all_columns_and_the_others_stay() -> None:
    slots = filled()
    before = copied(slots)
    for tensor in slots.tensors:
        tensor[:, 2] = torch.nan

    slots.clear(2)

    for tensor, old in zip(slots.tensors, before, strict=True):
        assert not tensor[:, 2].any()
        assert torch.equal(tensor[:, [0, 1, 3]], old[:, [0, 1, 3]])


def test_a_model_writes_at_given_columns_and_reads_up_to_the_last_one_asked_for() -> None:
    slots, columns = filled(), torch.tensor([[2, 3], [6, 1]])  # the second row's first query is padding
    before = copied(slots)
    cache = SlotCache(KINDS, slots.window(1, 3), columns, 4)
    keys, values = noise(2, 2, 2, 3), noise(2, 2, 2, 3, seed=1)

    seen, _ = cache.update(keys, values, 1)

    store, old = slots.tensors[0], before[0]
    assert seen.shape == (2, 2, 4, 3)
    assert torch.equal(seen, store[2, 1:3, :, :4])
    assert torch.equal(store[2, 1, :, 2:4], keys[0])
    assert torch.equal(store[3, 2, :, 1], values[1, :, 1])
    assert torch.equal(store[2, 2, :, 6], keys[1, :, 0])  # in the spare column
    assert torch.equal(store[:2], old[:2]) and torch.equal(store[:, [0, 3]], old[:, [0, 3]])


def test_tensors_of_one_shape_are_kept_together() -> None:
    cache = DynamicCache()
    with torch.inference_mode():
        tiny_loaded().model(input_ids=torch.tensor([[5, 6]]), past_key_values=cache)

    (kind,) = kinds_of(cache)

    assert sorted(kind.members) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert kind.nbytes == POSITION
