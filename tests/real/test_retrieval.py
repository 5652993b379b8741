"""A real model that looks things up keeps to the forms of choices, verdicts and actions."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.channels.message import Message
from sottovoce.datasets.samples import about_the_world
from sottovoce.environments.react import Action
from sottovoce.graphs.madra import AGREE, MADRA, SELECT, create_madra, selected
from sottovoce.graphs.react import ReAct, create_react, steps_of
from sottovoce.models import LoadedModel
from tests.graphs.support import board as board_of

pytestmark = pytest.mark.real


def model(loaded: LoadedModel) -> HookedChatModel:
    return HookedChatModel(model="smollm2", preloaded=loaded, max_tokens=16)


@pytest.mark.parametrize("steps", [True, False])
def test_a_choice_of_evidence_and_a_verdict_are_never_malformed(smollm2: LoadedModel, steps: bool) -> None:
    settings = MADRA(n_wiki=3, rounds=1, select_tokens=24, chain_of_thought=steps)
    graph = create_madra(settings, models=model(smollm2)).compile()
    (question,) = about_the_world("fact", 1, seed=7)

    board = board_of(graph.invoke(question, output_keys=["board"]))

    choices = [message.full_text for message in board if message.act == SELECT]
    assert len(choices) == 2
    for text in choices:
        line = text.splitlines()[-1]
        assert re.fullmatch(r"Evidence: ?(\[[0-2]\](?: \[[0-2]\]){0,2}|\[No Found\])", line)
        assert bool(selected(Message("agent_1", 0, "select", text), 3, 3)) == ("[No Found]" not in line)
    assert next(message.text for message in board if message.act == AGREE) in ("[Yes]", "[No]")


def test_every_step_of_a_relay_holds_an_action_and_takes_one_call(smollm2: LoadedModel) -> None:
    graph = create_react(ReAct(steps=3), models=model(smollm2)).compile()
    (question,) = about_the_world("fact", 1, seed=7)

    state: Any = graph.invoke(question, output_keys=["board", "round", "epochs"])

    steps = [said for said, _ in steps_of(cast(Any, {**question, **state}))]
    assert steps and all(isinstance(each.does, Action) and each.action is None for each in steps)
