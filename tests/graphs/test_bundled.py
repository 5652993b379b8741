"""The bundled model in every scheme: it speaks the forms that roles are asked for, and they decide by what it says."""

from __future__ import annotations

from typing import Any

import pytest

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.store import PayloadStore
from tests.graphs.support import board, built, held
from tests.tables import pairs, some

PROTOCOLS = ["nl", "cipher", "sde", "hidden"]
EASY: dict[str, Any] = {"question": "What is 14 + 5 * 3 - 7?", "target": "22"}
AGREED: dict[str, Any] = {"question": "What is 23 + 4 * 6 - 9?", "target": "38"}
"""One on which the moderator sees that the sides agree; of EASY it writes "22 = 22? no", as in one case of five."""
WRONG = "14 + 5 = 19; 19 * 3 = 57; 57 - 7 = 50. The answer is 50."


def bundled(protocol: str, store: PayloadStore) -> HookedChatModel:
    return HookedChatModel(model="bundled", protocol=protocol, store=store, max_tokens=160)


RULES = {"mad": "moderator", "reconcile": "weighted", "cmd": "vote"}


@pytest.mark.parametrize(("name", "protocol"), pairs([*RULES], PROTOCOLS[::-1], 5))
def test_agents_of_one_loaded_agree(name: str, protocol: str, store: PayloadStore) -> None:
    decision = held(built(name, bundled(protocol, store), agents=2), **AGREED)["decision"]
    assert (decision["answer"], decision["rule"], decision["score"]) == ("38", RULES[name], 1.0)


@pytest.mark.parametrize("protocol", some(PROTOCOLS, "sde"))
def test_a_moderator_leaves_open_what_the_sides_disagree_on_and_a_judge_decides(
    protocol: str, store: PayloadStore
) -> None:
    local, opponent = bundled(protocol, store), ScriptedChatModel([WRONG] * 2)
    models = {"affirmative": local, "negative": opponent, "moderator": local, "judge": local}
    # Held to its form it cannot take back, in a second object, that 22 = 50.
    state = held(built("mad", models, rounds=2, guide="off"), **EASY)
    assert (state["decision"]["answer"], state["decision"]["by"]) == ("22", "judge")
    assert {message.attempt for message in board(state)} == {0}  # everything could be read at once


@pytest.mark.parametrize("protocol", some(PROTOCOLS, "cipher"))
def test_a_secretary_decides_a_tie(protocol: str, store: PayloadStore) -> None:
    local, opponent = bundled(protocol, store), ScriptedChatModel([WRONG] * 3)
    models = {"agent_1": opponent, "agent_2": local, "secretary": local}
    decision = held(built("cmd", models, agents=2), **EASY)["decision"]
    assert (decision["answer"], decision["by"], decision["tied"]) == ("22", "secretary", ["50", "22"])


@pytest.mark.parametrize("protocol", some(PROTOCOLS, "hidden"))
def test_confidences_are_stated_and_weighed(protocol: str, store: PayloadStore) -> None:
    decision = held(built("reconcile", bundled(protocol, store), agents=2), **EASY)["decision"]
    assert all(0.5 < vote["confidence"] <= 1 and vote["weight"] >= 0.1 for vote in decision["votes"])


OTHERS: list[tuple[dict[str, Any], str]] = [
    ({"question": "Is 14 + 5 * 3 - 7 equal to 22?", "kind": "yes_no"}, "yes"),
    ({"question": "Is 14 + 5 * 3 - 7 equal to 23?", "kind": "yes_no"}, "no"),
    ({"question": "What is 14 + 5 * 3 - 7?", "kind": "option", "choices": ["21", "22", "29"]}, "B"),
]


@pytest.mark.parametrize(("other", "name"), pairs(OTHERS, ["mad", "single", "cmd"], 4))
def test_other_forms_of_answers(other: tuple[dict[str, Any], str], name: str, store: PayloadStore) -> None:
    question, answer = other
    # It was never taught the last line that guiding adds, and often says the opposite there (its card tells how often).
    graph = built(name, bundled("nl", store), guide="off")
    assert held(graph, **question)["decision"]["answer"] == answer
