"""On a CUDA device: every family computes as on a CPU, alone and in batches, also by captured steps."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from sottovoce.models import Feed, LoadedModel, Record, Request, Sampling, assemble
from sottovoce.models.doctor.selftest import CHECKS, Trial
from tests.support import FAMILIES, edit, request, rows, same_reply, tiny_model, tiny_tokenizer

pytestmark = pytest.mark.gpu

CALM = 0.03  # weights that contract what float32 rounds, where means are fed back
EVERYTHING = Record(layers=(0, 1), stats=True, top=3)


def on(
    device: str, family: str, dtype: torch.dtype = torch.float32, **shape: Any
) -> LoadedModel:  # Any: see tiny_model
    model = tiny_model(family, **shape)
    torch.nn.Module.to(model, device, dtype)
    return assemble(f"{family} on {device}", model, tiny_tokenizer())


def mixed(loaded: LoadedModel) -> list[Request]:
    """Requests that read, change and record: as many as fill several widths of captured steps."""
    asked = [request("word " * n, 6 + n, record=EVERYTHING) for n in range(1, 12)]
    asked += [request("What is 14 + 3?", 12, edits=(edit(0, 1, 2), edit(1, 3, 2)), record=EVERYTHING)]
    latent = rows(3, loaded.table.rows.shape[-1])
    return [*asked, request((latent, *request("pears").prompt), 12)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_computes_on_cuda_as_the_decoding_loop_relies_on(family: str, dtype: torch.dtype) -> None:
    trial = Trial.of(on("cuda", family, dtype))
    wrong = {name: detail for name, check in CHECKS.items() for ok, detail in [check(trial)] if ok is False}
    assert not wrong


@pytest.mark.parametrize("family", FAMILIES)
def test_a_batch_on_cuda_says_what_each_row_says_alone_and_on_a_cpu(family: str) -> None:
    cuda, cpu = on("cuda", family), on("cpu", family)
    together = cuda.engine.run_all(mixed(cuda))

    alone = cuda.engine.twin(reuse=False)
    assert all(same_reply(found, alone.run(each)) for found, each in zip(together, mixed(cuda), strict=True))
    assert all(map(same_reply, together, cpu.engine.run_all(mixed(cpu))))


def test_means_on_cuda_are_those_of_a_cpu() -> None:
    asked = [request("word " * n, 4, feed=Feed("mean"), sampling=Sampling(1.0), record=EVERYTHING) for n in range(1, 6)]
    cuda, cpu = on("cuda", "qwen2", sharp=CALM), on("cpu", "qwen2", sharp=CALM)
    for found, expected in zip(cuda.engine.run_all(asked), cpu.engine.run_all(asked), strict=True):
        assert same_reply(found, expected, relative=1e-4)  # four means after one another
