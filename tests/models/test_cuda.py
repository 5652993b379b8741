"""On a CUDA device: every family computes as on a CPU, alone and in batches, also by captured steps."""

from __future__ import annotations

from collections import abc
from dataclasses import replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sottovoce.models import Engine, Feed, LoadedModel, Record, Request, Sampling, assemble
from sottovoce.models.doctor import examine
from sottovoce.models.engine.cache import ROOM, Limits
from sottovoce.models.engine.loop import Loop
from sottovoce.models.engine.scheduler import Statistics
from sottovoce.models.engine.sequence import Sequence
from sottovoce.models.huggingface.cuda_graphs import PATIENCE, WARM, CudaGraphs, Forward, Shape
from sottovoce.models.huggingface.devices import without_cudnn
from sottovoce.models.huggingface.network import Network
from sottovoce.models.huggingface.passes import Pass, Reading
from tests.support import FAMILIES, VOCABULARY, edit, request, rows, same_reply, tiny_loaded, tiny_model, tiny_tokenizer
from tests.tables import some

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
@pytest.mark.gpu
def test_a_family_computes_on_cuda_as_the_decoding_loop_relies_on(family: str, dtype: torch.dtype) -> None:
    loaded = on("cuda", family, dtype)
    assert not [finding for finding in examine(family, loaded.model, loaded.tokenizer) if finding.ok is False]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.gpu
def test_a_batch_on_cuda_says_what_each_row_says_alone_and_on_a_cpu(family: str) -> None:
    cuda, cpu = on("cuda", family), on("cpu", family)
    together = cuda.engine.run_all(mixed(cuda))

    alone = cuda.engine.twin(reuse=False)
    assert all(same_reply(found, alone.run(each)) for found, each in zip(together, mixed(cuda), strict=True))
    assert all(map(same_reply, together, cpu.engine.run_all(mixed(cpu))))


@pytest.mark.gpu
def test_means_on_cuda_are_those_of_a_cpu() -> None:
    asked = [request("word " * n, 4, feed=Feed("mean"), sampling=Sampling(1.0), record=EVERYTHING) for n in range(1, 6)]
    cuda, cpu = on("cuda", "qwen2", sharp=CALM), on("cpu", "qwen2", sharp=CALM)
    for found, expected in zip(cuda.engine.run_all(asked), cpu.engine.run_all(asked), strict=True):
        assert same_reply(found, expected, relative=1e-4)  # four means after one another


# Steps of few shapes, as CUDA graphs need them


class Uncaptured(CudaGraphs):
    """Graphs that capture nothing: each step is made as usual, in its own shape."""

    def step(self, reading: Reading, layers: abc.Sequence[int]) -> None:
        return None

    def serving(self, shape: Shape, window: object, inputs: object) -> Shape:
        return shape


class Stepped(Network):
    """A network whose steps are padded to powers of two, as if they were to be captured."""

    @cached_property
    def cuda_graphs(self) -> CudaGraphs:
        return Uncaptured(self.forward, len(self.layers))


def steps(feed: Feed = Feed(), sampling: Sampling = Sampling()) -> list[Request]:  # noqa: B008  # frozen
    record = Record((0, 1), stats=True, top=3)
    return [request("word " * n, 4 + n, feed=feed, sampling=sampling, record=record) for n in range(1, 12)]


def stepped(loaded: LoadedModel) -> Engine:
    network = Stepped(loaded.model, VOCABULARY)
    return Engine(network, loaded.tokenizer, reuse=False)


@pytest.mark.parametrize("family", some(["gemma2", "mpt", "qwen2", "gpt2", "phi3-window"], "gemma2", "mpt"))
def test_padded_steps_give_what_plain_ones_give(family: str) -> None:
    loaded = tiny_loaded(family)
    engine = stepped(loaded)

    found = engine.run_all(steps())

    assert engine.statistics.widest > 8
    assert all(map(same_reply, found, loaded.engine.twin(reuse=False).run_all(steps())))


def test_padded_steps_of_means_give_what_plain_ones_give() -> None:
    loaded = tiny_loaded(sharp=0.03)  # calm: a sharp model would grow what float32 rounds
    asked = steps(Feed("mean"), Sampling(1.0))
    assert all(map(same_reply, stepped(loaded).run_all(asked), loaded.engine.twin(reuse=False).run_all(asked)))


class Drawn(CudaGraphs):
    """Graphs that are no graphs: each step that would be replayed is made, and noted by its shape."""

    def __init__(self, forward: Forward, layers: int) -> None:
        super().__init__(forward, layers)
        self.usual: list[Shape] = []
        self.replayed: list[Shape] = []

    def step(self, reading: Reading, layers: abc.Sequence[int]) -> Pass | None:
        found = super().step(reading, layers)
        if found is None:
            self.usual.append((len(reading.inputs), len(reading.span)))
        return found

    def _capture(self, reading: Reading) -> Any:
        def replay(reading: Reading, layers: abc.Sequence[int]) -> Pass:
            self.replayed.append((len(reading.inputs), len(reading.span)))
            return self._forward(reading, layers)

        return SimpleNamespace(replay=replay)


class Capturing(Stepped):
    """A network whose steps are made by such graphs."""

    @cached_property
    def cuda_graphs(self) -> Drawn:
        return Drawn(self.forward, len(self.layers))


@pytest.mark.parametrize("feed", [Feed(), Feed("mean")], ids=["tokens", "means"])
def test_a_captured_step_serves_smaller_ones_for_a_while(feed: Feed) -> None:
    loaded, asked = tiny_loaded(sharp=CALM), steps(feed, Sampling(1.0 if feed.kind == "mean" else 0.0))
    network = Capturing(loaded.model, VOCABULARY)
    long = replace(asked[0], stop=replace(asked[0].stop, max_new=3 * PATIENCE, ids=()))
    found = Engine(network, loaded.tokenizer, reuse=False, lookup=False).run_all([*asked, long])

    graphs = network.cuda_graphs
    assert len(graphs.usual) <= 2 * WARM * len({rows for rows, _ in graphs.usual})
    widest = max(rows for rows, _ in graphs.replayed)
    assert widest > 8 and graphs.replayed.count((widest, 256)) >= PATIENCE
    assert (1, 256) in graphs.replayed  # one that lasts is captured in the end
    assert all(map(same_reply, found, loaded.engine.twin(reuse=False).run_all([*asked, long])))


def test_steps_that_are_captured_begin_with_room_so_that_later_ones_need_no_other_memory() -> None:
    loaded = tiny_loaded()
    loop = Loop(Stepped(loaded.model, VOCABULARY), Limits(64), Statistics())
    loop.scheduler.waiting.append(Sequence(request("word"), loaded.tokenizer))
    loop.step()
    assert (loop.scheduler.caches.kv.slots, loop.scheduler.caches.kv.columns) == ROOM


def test_prompts_are_read_without_plans_by_cudnn_and_it_is_as_before_when_all_are_done() -> None:
    before = torch.backends.cuda.cudnn_sdp_enabled()
    first, second = without_cudnn(), without_cudnn()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not torch.backends.cuda.cudnn_sdp_enabled()
    second.__exit__(None, None, None)
    assert torch.backends.cuda.cudnn_sdp_enabled() == before


@pytest.mark.gpu
def test_captured_steps_give_what_steps_as_ever_give() -> None:
    loaded = on("cuda", "qwen2")
    handle = loaded.model.register_forward_hook(lambda *_: None)  # with a hook of ours, nothing is captured
    expected = loaded.engine.twin(reuse=False).run_all(steps() * 3)
    handle.remove()

    found = loaded.engine.twin(reuse=False).run_all(steps() * 3)

    assert loaded.network.cuda_graphs is not None
    assert all(map(same_reply, found, expected))


@pytest.mark.gpu
def test_captured_steps_hold_no_cache_that_the_engine_has_dropped() -> None:
    # The old keys and values lived on until a step was captured on the new ones.
    loaded = on("cuda", "qwen2")
    loop = Loop(loaded.network, Limits(4, reuse=False, lookup=False), Statistics())
    loop.scheduler.waiting.append(Sequence(request(max_new=12), loaded.tokenizer))
    while loop.scheduler.busy:
        loop.step()
    kv, before = loop.scheduler.caches.kv, torch.cuda.memory_allocated()
    dropped = kv.allocated
    kv.resize(0, 0, [])

    assert loaded.network.cuda_graphs is not None and any(loaded.network.cuda_graphs._graphs.values())
    assert before - torch.cuda.memory_allocated() >= dropped - kv.allocated > 0


@pytest.mark.gpu
def test_steps_of_a_later_engine_are_captured_too() -> None:
    # The memory of the first graphs had gone with them, so that those after them were computed as ever.
    loaded = on("cuda", "qwen2")
    for most in (2, 12):
        loaded.engine.twin(reuse=False).run_all([request("word " * n, 40) for n in range(1, most + 1)])
        captured = loaded.network.cuda_graphs
        assert captured is not None and captured._graphs and all(captured._graphs.values())
