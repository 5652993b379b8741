"""On a CUDA device: discussions say what they say on a CPU, and in half precision they are held to their end."""

from __future__ import annotations

from typing import Any

import pytest

from sottovoce.channels import PROTOCOLS
from sottovoce.channels.store import PayloadStore
from sottovoce.core.any_types import AnyState
from tests.graphs.support import KEYS, board, debating, held

pytestmark = pytest.mark.gpu

QUESTIONS = [{"question": f"What is {a} + {b} * 5 - 7?", "id": f"{a}"} for a, b in ((14, 3), (20, 2), (31, 4))]
SHORT: dict[str, Any] = {"rounds": 3, "max_tokens": 48, "answer_turn": "off"}


def discussed(protocol: str, device: str, store: PayloadStore, **settings: AnyState) -> list[AnyState]:
    graph = debating(store=store, protocol=protocol, device=[device], **{**SHORT, **settings})
    return graph.batch([*QUESTIONS], output_keys=KEYS)


def said(states: list[Any]) -> list[list[str]]:
    return [[message.text for message in board(state)] for state in states]


@pytest.mark.parametrize("drawn", [{"temperature": [0]}, {}], ids=["greedy", "drawn"])
@pytest.mark.parametrize("protocol", PROTOCOLS.names())
def test_debates_on_cuda_in_float32_say_what_they_say_on_a_cpu(protocol: str, drawn: Any, store: PayloadStore) -> None:
    # At temperature 0 every sum of another order would have to turn an argmax over to be heard.
    cuda, cpu = (discussed(protocol, device, store, dtype=["float32"], **drawn) for device in ("cuda", "cpu"))
    assert said(cuda) == said(cpu)
    assert not drawn or [state["decision"] for state in cuda] == [state["decision"] for state in cpu]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("protocol", PROTOCOLS.names())
def test_debates_on_cuda_in_half_precision_carry_payloads_of_it(protocol: str, dtype: str, store: PayloadStore) -> None:
    states = discussed(protocol, "cuda", store, dtype=[dtype])
    kinds = {message.payload.dtype for state in states for message in board(state)}  # type: ignore[union-attr]
    assert kinds == {None if protocol == "nl" else dtype}


def test_a_model_on_cuda_and_its_copy_on_a_cpu_hear_one_another(store: PayloadStore) -> None:
    for protocol in PROTOCOLS.names():
        graph = debating(store=store, protocol=protocol, device=["cuda", "cpu"], dtype=["float32"], **SHORT)
        state = held(graph)
        assert len(board(state)) == 6 and not any("in words" in note for note in state["notes"])
