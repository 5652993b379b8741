"""Steps of few shapes, as CUDA graphs need them: what the padding holds counts nowhere."""

from __future__ import annotations

import pytest
import torch

from sottovoce.models import Engine, Feed, Record, Request, Sampling, assemble
from sottovoce.models.network import Network
from sottovoce.models.text import Detokenizer
from tests.support import VOCABULARY, request, same_reply, tiny_mind, tiny_model, tiny_tokenizer


class Stepped(Network):
    """A network whose steps are padded to powers of two, as if they were to be captured."""

    @property
    def captures(self) -> bool:
        return True


def company() -> list[Request]:
    record = Record((0, 1), stats=True, top=3)
    means = {"feed": Feed("mean"), "sampling": Sampling(1.0)}  # few steps: their feedback grows what float32 rounds
    return [
        request("word " * n, 3 if n % 3 == 0 else 4 + n, record=record, **(means if n % 3 == 0 else {}))
        for n in range(1, 12)
    ]


@pytest.mark.parametrize("family", ["qwen2", "gemma2", "gpt2", "mpt", "phi3-window"])
def test_padded_steps_give_what_plain_ones_give(family: str) -> None:
    plain = tiny_mind(family)
    network = Stepped(plain.model, VOCABULARY)
    engine = Engine(network, {special: Detokenizer(plain.tokenizer, special=special) for special in (False, True)})

    found = engine.run_all(company())

    assert engine.tally.widest > 8
    assert all(map(same_reply, found, plain.engine.twin(reuse=False).run_all(company())))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_captured_steps_give_what_steps_as_ever_give() -> None:
    model = tiny_model()
    torch.nn.Module.to(model, "cuda")
    mind = assemble("on cuda", model, tiny_tokenizer())
    handle = mind.model.register_forward_hook(lambda *_: None)  # with a hook of ours, nothing is captured
    expected = mind.engine.twin(reuse=False).run_all(company() * 3)
    handle.remove()

    found = mind.engine.twin(reuse=False).run_all(company() * 3)

    assert mind.network.captures
    assert all(map(same_reply, found, expected))
