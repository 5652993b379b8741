"""Each agent's model, device, dtype, weights, memory and protocol options come from settings: no Python is needed."""

from __future__ import annotations

from typing import Any

import pytest

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.core.errors import UsageError
from sottovoce.graphs.debate import Debate, create_debate
from sottovoce.graphs.mad import MAD
from sottovoce.nodes.context import made_from
from sottovoce.nodes.settings import Settings


def hooked(settings: Settings) -> dict[str, HookedChatModel]:
    """Everybody's model as the settings make it; nothing is loaded."""
    made = {name: made_from(settings, name) for name in settings.names()}
    return {name: model for name, model in made.items() if isinstance(model, HookedChatModel)}


def test_three_models_on_two_devices_need_no_python() -> None:
    settings = Debate(
        agents=3,
        model=["one", "two", "three"],
        device=["cuda:0", "cuda:0", "cuda:1"],
        dtype=["bfloat16"],
        memory=["20GB", "10GB", 40_000_000_000],  # type: ignore[list-item]  # as a file has them
    )
    found = [(each.model, each.device, each.dtype, each.memory) for each in hooked(settings).values()]
    assert found == [
        ("one", "cuda:0", "bfloat16", 20_000_000_000),
        ("two", "cuda:0", "bfloat16", 10_000_000_000),
        ("three", "cuda:1", "bfloat16", 40_000_000_000),
    ]


def test_those_who_do_not_discuss_take_the_first_agent_s() -> None:
    models = hooked(MAD(model=["one", "two"], device=["cpu", "mps"]))
    assert [(each.model, each.device) for each in models.values()] == [
        ("one", "cpu"),
        ("two", "mps"),
        ("one", "cpu"),
        ("one", "cpu"),
    ]


@pytest.mark.parametrize(
    "given",
    [
        {"layers": [3], "option": {"agent_2.layers": [1, 2], "inject": "all"}},
        {"option": {"layers": [3], "agent_2.layers": [1, 2], "inject": "all"}},
        {"option": {"agent_2.layers": [1, 2], "layers": [3], "inject": "all"}},  # its own hold in any order
    ],
)
def test_options_of_the_protocol_may_be_one_agent_s_own(given: dict[str, Any]) -> None:
    settings = Debate(protocol="sde", **given)
    first, second = (model.channel.options for model in hooked(settings).values())
    assert (first.layers, first.inject) == ((3,), "all")  # type: ignore[attr-defined]
    assert (second.layers, second.inject) == ((1, 2), "all")  # type: ignore[attr-defined]


@pytest.mark.parametrize("store", ["payloads", 3])
def test_a_store_that_keeps_no_payloads_is_refused_while_the_graph_is_made(store: object) -> None:
    # a folder's name in its place was an AttributeError once somebody had spoken
    with pytest.raises(UsageError, match=rf"^store is {store!r}; expected a payload store"):
        create_debate(store=store)
