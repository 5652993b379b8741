"""Steps of few shapes, as CUDA graphs need them: what the padding holds counts nowhere."""

from __future__ import annotations

import pytest
import torch

from sottovoce.models import Engine, Feed, LoadedModel, Record, Request, Sampling, assemble
from sottovoce.models.huggingface.network import Network
from tests.support import VOCABULARY, request, same_reply, tiny_loaded, tiny_model, tiny_tokenizer


class Stepped(Network):
    """A network whose steps are padded to powers of two, as if they were to be captured."""

    @property
    def uses_cuda_graphs(self) -> bool:
        return True


def mixed(feed: Feed = Feed(), sampling: Sampling = Sampling()) -> list[Request]:  # noqa: B008  # frozen
    record = Record((0, 1), stats=True, top=3)
    return [request("word " * n, 4 + n, feed=feed, sampling=sampling, record=record) for n in range(1, 12)]


def stepped(loaded: LoadedModel) -> Engine:
    network = Stepped(loaded.model, VOCABULARY)
    return Engine(network, loaded.tokenizer, reuse=False)


@pytest.mark.parametrize("family", ["qwen2", "gemma2", "gpt2", "mpt", "phi3-window"])
def test_padded_steps_give_what_plain_ones_give(family: str) -> None:
    loaded = tiny_loaded(family)
    engine = stepped(loaded)

    found = engine.run_all(mixed())

    assert engine.statistics.widest > 8
    assert all(map(same_reply, found, loaded.engine.twin(reuse=False).run_all(mixed())))


def test_padded_steps_of_means_give_what_plain_ones_give() -> None:
    loaded = tiny_loaded(sharp=0.03)  # calm: a sharp model would grow what float32 rounds
    asked = mixed(Feed("mean"), Sampling(1.0))

    assert all(map(same_reply, stepped(loaded).run_all(asked), loaded.engine.twin(reuse=False).run_all(asked)))


def on_cuda() -> LoadedModel:
    model = tiny_model()
    torch.nn.Module.to(model, "cuda")
    return assemble("on cuda", model, tiny_tokenizer())


@pytest.mark.gpu
def test_captured_steps_give_what_steps_as_ever_give() -> None:
    loaded = on_cuda()
    handle = loaded.model.register_forward_hook(lambda *_: None)  # with a hook of ours, nothing is captured
    expected = loaded.engine.twin(reuse=False).run_all(mixed() * 3)
    handle.remove()

    found = loaded.engine.twin(reuse=False).run_all(mixed() * 3)

    assert loaded.network.uses_cuda_graphs
    assert all(map(same_reply, found, expected))


@pytest.mark.gpu
def test_steps_of_a_later_engine_are_captured_too() -> None:
    # The memory of the first graphs had gone with them, so that those after them were computed as ever.
    loaded = on_cuda()
    for rows in (2, 12):
        loaded.engine.twin(reuse=False).run_all([request("word " * n, 40) for n in range(1, rows + 1)])
        captured = loaded.network._cuda_graphs
        assert captured is not None and captured._graphs and all(captured._graphs.values())
