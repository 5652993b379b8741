"""Matrices in 8 and 4 bits: both ways through them give the product of the numbers that are stored."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import nn
from transformers import PreTrainedModel

from sottovoce.models import LoadedModel, assemble
from sottovoce.models.huggingface.embedding_table import digest_of_all, tensors_of
from sottovoce.models.huggingface.packed_weights import (
    GROUP,
    PACKINGS,
    Grid,
    Packed,
    Packing,
    matrices,
    pack,
    parameters_of,
    rounded_to_int4,
    rounded_to_int8,
)
from tests.support import FAMILIES, FLOAT32, ids, noise, request, tiny_model, tiny_tokenizer
from tests.tables import some

ROUNDED = 2**-8  # of a value: what bfloat16 may change of it, rounded to nearest, and to spare
ROWS, COLUMNS = 128, 96
packings = pytest.mark.parametrize("packing", PACKINGS)


def grid(planes: int = 1, seed: int = 0) -> Grid:
    """Random values, scales and zeros that bfloat16 holds as they are."""
    values = torch.randint(16, (ROWS, planes * COLUMNS), generator=torch.Generator().manual_seed(seed))
    scale, zero = (noise(ROWS, planes * COLUMNS // GROUP, seed=seed + i).bfloat16().float() for i in (1, 2))
    return Grid(values.to(torch.uint8), scale, zero)


def matrix_of(grid: Grid, planes: int = 1) -> torch.Tensor:
    """(n, k), by the definition."""
    whole = (grid.q.float() - 8) * grid.scale.repeat_interleave(GROUP, 1) + grid.zero.repeat_interleave(GROUP, 1)
    return sum(whole.chunk(planes, dim=1), torch.zeros(()))


def made_of(planes: int, bias: torch.Tensor | None = None) -> tuple[Packed, torch.Tensor]:
    made = grid(planes)
    return Packed(made, "int4", bias, planes=planes), matrix_of(made, planes)


all_planes = pytest.mark.parametrize("planes", [1, 2])


@all_planes
@pytest.mark.parametrize("biased", [False, True])
def test_few_rows_and_many_are_multiplied_by_the_numbers_that_are_stored(planes: int, biased: bool) -> None:
    bias = noise(ROWS, seed=5) if biased else None
    module, matrix = made_of(planes, bias)
    inputs = noise(3, module.few, COLUMNS).bfloat16().float()  # so that only the kernel's outputs are rounded
    expected = nn.functional.linear(inputs, matrix)

    few = torch.stack([module(rows) for rows in inputs])
    many = module(inputs)
    scale, shift = expected.abs().max(), torch.zeros(()) if bias is None else bias
    assert few.dtype == many.dtype == torch.float32 and many.shape == expected.shape
    assert ((few - shift - expected).abs() <= ROUNDED * expected.abs() + FLOAT32 * scale).all()
    assert (many - shift - expected).abs().max() <= FLOAT32 * scale
    assert not torch.equal(few, many), "few rows went through the kernel"


@all_planes
def test_a_packed_matrix_is_widened_to_exactly_its_numbers(planes: int) -> None:
    module, matrix = made_of(planes)
    assert torch.allclose(module.widened(), matrix.T, rtol=1e-6, atol=1e-6)


def test_a_state_dict_holds_the_values_in_plain_order() -> None:
    made = grid()
    state = Packed(made, "int4").state_dict()["_extra_state"]
    assert torch.equal(torch.stack([state & 15, state >> 4], dim=-1).flatten(1), made.q)


@pytest.mark.slow
@pytest.mark.parametrize("capability", ["default", "avx2"])
def test_all_this_holds_where_a_cpu_can_do_less(capability: str) -> None:
    # torch chooses its kernels as it is imported, and packs in another order for each.
    these = "numbers_that_are_stored or exactly_its_numbers or plain_order"
    command = [sys.executable, "-m", "pytest", "-q", __file__, "-k", these]
    found = subprocess.run(
        command, env={**os.environ, "ATEN_CPU_CAPABILITY": capability}, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout  # 5 where none was chosen


def test_int8_is_within_half_a_step_of_every_value() -> None:
    matrix = noise(ROWS, COLUMNS)
    matrix[0] = 0
    made = rounded_to_int8(matrix)

    largest = matrix.unflatten(1, (-1, GROUP)).abs().amax(2).repeat_interleave(GROUP, 1)
    apart = (matrix_of(Grid(made.q, made.scale.float(), made.zero.float()), planes=2) - matrix).abs()
    assert (apart <= (0.51 / 127 + ROUNDED) * largest).all()
    assert (apart <= 0.51 / 127 * largest).float().mean() > 0.98  # all but those that the rounded scale clamps
    assert not apart[0].any()


def test_int4_is_within_half_a_step_of_every_value() -> None:
    matrix = noise(ROWS, COLUMNS) + 0.5
    matrix[0], matrix[1, :GROUP] = 0, 0.75
    made = rounded_to_int4(matrix)

    groups = matrix.unflatten(1, (-1, GROUP))
    step = ((groups.amax(2) - groups.amin(2)) / 15).repeat_interleave(GROUP, 1)
    apart = (matrix_of(Grid(made.q, made.scale.float(), made.zero.float())) - matrix).abs()
    assert (apart <= step + 1e-6).all()
    assert (apart <= 0.51 * step + 1e-6).float().mean() > 0.99  # all but those at the ends of a rounded scale


OF_FAMILIES = {  # what some call otherwise, or have besides
    "gpt2": {"n_embd": 64},
    "opt": {"ffn_dim": 128, "word_embed_proj_dim": 64},
    "opt-narrow": {"ffn_dim": 128},
}


def model_of(family: str = "llama", **options: Any) -> PreTrainedModel:
    """A tiny model whose matrices a kernel can take; all but its head, whose 300 rows are no multiple of 64."""
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_key_value_heads": 4, **OF_FAMILIES.get(family, {})}
    made: PreTrainedModel = tiny_model(family, sharp=0.1, **{**sizes, **options}).eval()
    return made


def packed_model(packing: Packing, family: str = "llama", **options: Any) -> PreTrainedModel:
    model = model_of(family, **options)
    pack(model, packing)
    return model


def loaded_of(packing: Packing, family: str = "llama", **options: Any) -> LoadedModel:
    return assemble(family, packed_model(packing, family, **options), tiny_tokenizer())


def packed_in(model: PreTrainedModel) -> list[Packed]:
    return [module for module in model.modules() if isinstance(module, Packed)]


@packings
def test_all_linear_maps_of_a_model_are_packed_but_those_of_odd_sizes(packing: Packing) -> None:
    found = packed_model(packing)
    assert len(packed_in(found)) == 14
    assert type(found.get_output_embeddings()) is torch.nn.Linear  # 300 x 64


@packings
def test_a_tied_head_is_packed_apart_from_the_table(packing: Packing) -> None:
    plain = model_of(vocab_size=320, tie_word_embeddings=True)
    model = packed_model(packing, vocab_size=320, tie_word_embeddings=True)

    head = model.get_output_embeddings()
    table, same = (each.get_input_embeddings().get_parameter("weight") for each in (model, plain))
    assert isinstance(head, Packed) and head.tied
    assert torch.equal(table, same) and table.dtype == torch.float32
    assert parameters_of(model) == plain.num_parameters() == parameters_of(plain)


def test_a_digest_tells_formats_and_weights_apart() -> None:
    def digest(packing: Packing | None, seed: int = 0) -> str:
        return digest_of_all(tensors_of(packed_model(packing, seed=seed) if packing else model_of(seed=seed)))

    found = [digest(packing, seed) for packing in (None, *PACKINGS) for seed in (0, 1)]
    assert len(set(found)) == len(found)
    assert digest("int4") == digest("int4")


@packings
@pytest.mark.parametrize("family", some(FAMILIES, "gpt2", "falcon", "phi3", "opt-narrow", "bloom"))
def test_packed_models_of_every_family_compute_as_the_matrices_that_they_store(family: str, packing: Packing) -> None:
    model, plain = packed_model(packing, family), model_of(family)
    if not family.startswith("falcon"):  # its linear maps are of a class of its own
        assert len(packed_in(model)) >= 8
    widened = {name: module for name, module in model.named_modules() if isinstance(module, Packed)}
    for name, matrix in matrices(plain).items():
        if module := widened.get(name.removesuffix(".weight")):
            matrix.copy_(module.widened().T)
    prompt = torch.tensor([ids("What is 14 + 3 * 5 - 7?")])

    with torch.no_grad():
        found, expected = model(prompt).logits, plain(prompt).logits
    assert (found - expected).abs().max() <= 3e-2 * expected.abs().max()


@packings
def test_a_reply_hardly_depends_on_its_company(packing: Packing) -> None:
    engine = loaded_of(packing).engine.twin(reuse=False)
    asked = [request(prompt, max_new=4) for prompt in ("Hi", "What is 14 + 3?", "You know: Mia has 3 apples.")]

    alone = [engine.run(each).ids for each in asked]
    assert [reply.ids for reply in engine.run_all(asked * 10)] == alone * 10


@packings
def test_biases_are_kept(packing: Packing) -> None:
    model, plain = packed_model(packing, "qwen2"), model_of("qwen2")
    bias = torch.arange(64.0)
    layer = model.model.layers[0].self_attn.q_proj
    assert torch.equal(layer.bias, plain.model.layers[0].self_attn.q_proj.bias)
    layer.bias.copy_(bias)

    assert torch.equal(layer(torch.zeros(1, 64)), bias[None])
    assert parameters_of(model) == plain.num_parameters()
