"""Keys of positions: equal for what a model reads alike, and for nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from sottovoce.models import Edit, Ids, Request, Rows, Stop
from sottovoce.models.engine.prefix_cache import chain, position_keys
from tests.support import HIDDEN, edit, noise, request

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
        (replace(ASKED, prompt=(IDS, Rows(LATENT[:, torch.arange(HIDDEN).flip(0)]), Ids((9, 10)))), [4, 5, 6, 7]),
        (replace(ASKED, prompt=(IDS, Ids((1, 2, 3, 4)), Ids((9, 10)))), [4, 5, 6, 7]),
        (replace(ASKED, edits=()), [2, 3, 4]),
        (replace(ASKED, edits=(Edit(1, 2, DELTA),)), [2, 3, 4]),
        (replace(ASKED, edits=(Edit(0, 3, DELTA),)), [2, 3, 4, 5]),
        (replace(ASKED, edits=(Edit(0, 2, DELTA[:2]),)), [4]),
        (replace(ASKED, edits=(Edit(0, 2, changed(DELTA, 1)),)), [3]),
        (replace(ASKED, edits=(Edit(0, 2, -DELTA),)), [2, 3, 4]),
        (replace(ASKED, edits=(*ASKED.edits, edit(0, 9, 1, seed=3))), [9]),
        (replace(ASKED, edits=(*ASKED.edits, *ASKED.edits)), [2, 3, 4]),
    ],
    ids=[
        "an id",
        "a bit of a row",
        "rows in another order",
        "numbers in another order",
        "ids for rows",
        "no edit",
        "another layer",
        "a later edit",
        "a shorter edit",
        "a bit of a delta",
        "a delta reversed",
        "an edit more",
        "an edit twice",
    ],
)
def test_keys_tell_apart_where_prompts_part(other: Request, apart: list[int]) -> None:
    pairs = zip(keys(ASKED), keys(other), strict=True)

    assert [at for at, (one, another) in enumerate(pairs) if one != another] == apart


@pytest.mark.parametrize(
    "other",
    [
        replace(ASKED, prompt=(IDS, Rows(LATENT.clone()), Ids((9, 10))), edits=(Edit(0, 2, DELTA.clone()),)),
        replace(ASKED, prompt=(IDS, Rows(LATENT.double()), Ids((9, 10)))),
        replace(ASKED, prompt=(IDS, Rows(LATENT.T.contiguous().T), Ids((9, 10)))),
        replace(ASKED, prompt=(IDS, Rows(torch.cat([DELTA, LATENT])[3:]), Ids((9, 10)))),
        replace(ASKED, prompt=(IDS, Rows(LATENT[:1]), Rows(LATENT[1:]), Ids((9,)), Ids(()), Ids((10,)))),
        replace(ASKED, edits=(Edit(0, 2, DELTA[:1]), Edit(0, 3, DELTA[1:]))),
        replace(ASKED, stop=Stop(99, ids=(7,))),
    ],
    ids=["copies", "float64", "strides", "a part of a larger one", "other pieces", "an edit in two", "a longer reply"],
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
