"""Controls: something else is heard in the place of one another's messages, under every protocol."""

from __future__ import annotations

from typing import Any

import pytest

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import MessageRef
from sottovoce.channels.store import PayloadStore
from sottovoce.core.errors import UsageError
from sottovoce.graphs.debate import Debate
from sottovoce.nodes.hearing import filler
from tests.graphs.support import board, built, calls, debating, held, lonely, marked
from tests.tables import some

CONTROLS = ("own", "empty", "decoy")
DECOYS = ["The answer is 7.", "The answer is 8."]


def heard_by(agent: str, **settings: Any) -> list[list[str]]:
    """The words that it hears of others in the last round, round by round of which they are."""
    model = marked(3, 3)
    held(debating(model, agents=3, **{"rounds": 3, **settings}), decoys=DECOYS)
    turns = calls(model, agent, "revise")[-1].turns
    found = [[part.text for part in turn.parts if isinstance(part, MessageRef) and not part.own] for turn in turns]
    return [texts for texts in found if texts]


@pytest.mark.parametrize(
    ("control", "expected"),
    [
        ("none", [["1 in 0. Answer: 0", "3 in 0. Answer: 0"], ["1 in 1. Answer: 1", "3 in 1. Answer: 1"]]),
        ("own", [["2 in 0. Answer: 0", "2 in 0. Answer: 0"], ["2 in 1. Answer: 1", "2 in 1. Answer: 1"]]),
        ("empty", [["", ""], ["", ""]]),
        (
            "decoy",
            [["The answer is 7.", "The answer is 7."], ["The answer is 7.", "The answer is 7."]],
        ),  # by the speakers' order: 0 and 2
    ],
)
def test_a_control_stands_in_the_place_of_every_message_of_every_round(control: str, expected: list[list[str]]) -> None:
    assert heard_by("agent_2", control=control) == expected


def test_filler_has_as_many_words_and_for_a_local_model_as_many_tokens(store: PayloadStore) -> None:
    assert heard_by("agent_2", control="filler") == [[". . . . .", ". . . . ."], [". . . . .", ". . . . ."]]
    model = lonely("nl", store)
    graph = debating(model, rounds=2, control="filler", answer_turn="off")
    found = [message for message in board(held(graph)) if message.agent == "agent_2"]
    dots = filler(found[0], model)
    said, other = (len(model.loaded.chat.ids(text, plain=True)) for text in (found[0].text, dots))
    assert abs(said - other) <= 2 and {*dots} <= {".", " "}


@pytest.mark.parametrize(
    ("control", "expected"), [("none", "2 in"), ("own", "1 in"), ("empty", ""), ("decoy", DECOYS[1])]
)
def test_where_each_knows_a_part_a_control_stands_in_the_place_of_what_the_others_say(
    control: str, expected: str
) -> None:
    model = ScriptedChatModel({f"agent_{i}": [f"{i} in", "So."] for i in (1, 2)})
    held(built("ia", model, rounds=2, control=control), decoys=DECOYS)
    turns = calls(model, "agent_1")[-1].turns
    assert [part.text for turn in turns for part in turn.parts if isinstance(part, MessageRef)] == ["1 in", expected]


def test_a_fresh_prompt_and_a_summary_of_each_hear_the_control_too() -> None:
    assert heard_by("agent_2", control="decoy", shape="fresh") == [["The answer is 7.", "The answer is 7."]]
    model = marked(2, 9)
    held(debating(model, rounds=2, summarise="each", control="own"))
    (asked,) = calls(model, "agent_1", "summarise")
    assert [part.text for turn in asked.turns for part in turn.parts if isinstance(part, MessageRef)] == [
        "1 in 0. Answer: 0"
    ]


@pytest.mark.parametrize("protocol", some(["nl", "cipher", "sde", "hidden"], "sde"))
@pytest.mark.parametrize("control", some(["none", *CONTROLS], "none", "empty"))
def test_under_a_control_nothing_of_another_agent_s_message_arrives(
    control: str, protocol: str, store: PayloadStore
) -> None:
    said = []
    for system in ("Be brief.", "You know that Mia has 3 apples, and that 22 pears are too many."):
        graph = debating(lonely(protocol, store), rounds=2, control=control, system=["", system], answer_turn="off")
        found = board(held(graph, decoys=DECOYS))
        said.append([message.text for message in found if message.agent == "agent_1"])
        others = [message.text for message in found if message.agent == "agent_2"]
    assert said[0][0] == said[1][0] != others[0]
    assert (said[0][1] == said[1][1]) is (control != "none")


def test_decoys_are_asked_for_before_anybody_speaks() -> None:
    model = marked(2, 2)
    for graph in (debating(model, control="decoy"), built("ia", model, control="decoy")):
        with pytest.raises(UsageError, match="the control is 'decoy', but the question has no 'decoys'"):
            held(graph)
    assert not model.calls


@pytest.mark.parametrize("settings", [{"agents": 1}, {"summarise": "shared"}])
def test_a_control_without_messages_to_replace_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="the control 'own' replaces messages that agents read from one another"):
        Debate(control="own", **settings)
