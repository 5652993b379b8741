"""The operators of a pass, counted: no more than those of transformers' own modules and caches."""

from __future__ import annotations

from functools import cache

import pytest

from benchmarks.operators import FAMILIES, PASSES, RIVALS, Share, shares


@cache
def counted(family: str, rival: str = "ours") -> dict[str, Share]:
    return dict(zip(PASSES, shares(FAMILIES[family], RIVALS[rival]), strict=True))


@pytest.mark.parametrize("pass_", PASSES)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_layer_has_no_more_operators_than_in_transformers(family: str, pass_: str) -> None:
    ours, theirs = (counted(family, rival)[pass_] for rival in ("ours", "DynamicCache"))
    assert 0 < ours.layer.total() <= theirs.layer.total()
    assert ours.once.total() <= theirs.once.total()


@pytest.mark.parametrize("pass_", PASSES)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_mask_is_made_once_a_pass_and_not_in_each_layer(family: str, pass_: str) -> None:
    share = counted(family)[pass_]
    assert share.once["where"] and not share.layer["where"]


@pytest.mark.parametrize(
    "family", [each for each in FAMILIES if each != "Gemma-2"]
)  # its eager attention has products of batches
def test_the_logits_of_several_prompts_are_one_product(family: str) -> None:
    assert not counted(family)["prompts"].once["bmm"]
