"""The pipeline: who hears whom and in which words, what needs no words, and who answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels import PROTOCOLS
from sottovoce.channels.message import Message, MessageRef
from sottovoce.channels.store import PayloadStore
from sottovoce.core.errors import UsageError
from sottovoce.graphs import scheme
from sottovoce.graphs.pipeline import ACTS, CONTRIBUTE, Pipeline, turns_of
from sottovoce.nodes.context import Models
from sottovoce.nodes.prompt_builder import PromptBuilder
from sottovoce.prompts.render import Prompts
from tests.graphs.support import KEPT, Once, State, board, built, heard, held, lonely
from tests.runs.single import Task, run_one
from tests.runs.support import QUESTION
from tests.tables import each_row, some

STAGES = {"planner": ["Times first."], "critic": ["And then?"], "refiner": ["Times, plus, minus."]}
SPECIALISTS = {"calculator": ["15."], "researcher": ["Times goes first."], "analyst": ["29 - 7."]}
SCRIPT = {**STAGES, "judge": ["The answer is 22."], **SPECIALISTS, "summariser": ["The answer is 22."]}
SHAPES: dict[str, list[str]] = {"sequential": [*STAGES, "judge"], "hierarchical": [*SPECIALISTS, "summariser"]}


def piped(shape: str, model: Models, question: dict[str, Any] | None = None, **settings: Any) -> State:
    return held(built("pipeline", model, shape=shape, **settings), **(question or {}))


def scripted(shape: str, **more: list[str]) -> ScriptedChatModel:
    return ScriptedChatModel({agent: {**SCRIPT, **more}[agent][:] for agent in SHAPES[shape]})


@pytest.mark.parametrize("shape", SHAPES)
def test_prompts(shape: str, snapshot: SnapshotAssertion) -> None:
    model = scripted(shape)
    piped(shape, model)
    assert {asked.agent: asked.text for asked in model.calls} == snapshot


@each_row("shape", SHAPES)
def test_only_the_last_agent_needs_words_and_answers_in_them(shape: str) -> None:
    model = scripted(shape)
    state = piped(shape, model, {"target": "22"})
    assert [asked.agent for asked in model.calls][-1:] == SHAPES[shape][-1:]
    assert [(asked.options.get("silent"), asked.options.get("speaks")) for asked in model.calls] == [
        *[(True, None)] * 3,
        (None, "nl"),
    ]
    decision = state["decision"]
    assert (decision["answer"], decision["by"], decision["score"]) == ("22", SHAPES[shape][-1], 1.0)
    assert [vote["agent"] for vote in decision["votes"]] == SHAPES[shape][-1:]


def test_in_words_each_stage_hears_all_before_it() -> None:
    model = scripted("sequential")
    state = piped("sequential", model)
    assert [message.turn for message in board(state)] == [0, 1, 2, 3]
    for number, asked in enumerate(model.calls):
        assert heard(asked) == [(agent, 0) for agent in SHAPES["sequential"][:number]]


def test_of_stages_without_words_only_the_last_is_heard_and_none_is_quoted() -> None:
    spoken = [Message(agent, 0, act, "", payload=KEPT) for agent, act in ACTS.items()]
    for number in range(4):
        (turn,) = turns_of(PromptBuilder(Prompts(), {"question": "?"}, None), spoken[:number])
        first, *rest = turn.parts
        assert first == MessageRef(spoken[number - 1]) if number else isinstance(first, str)
        assert all(isinstance(part, str) for part in rest)
        assert "<message>" not in turn.text and " says:" not in turn.text


def test_a_stage_that_said_nothing_is_quoted_so() -> None:
    model = scripted("sequential", planner=[""])
    piped("sequential", model)
    assert "planner says:\n<message>\n(nothing)\n</message>" in model.calls[1].text
    assert heard(model.calls[1]) == [("planner", 0)]


def test_a_summariser_hears_all_specialists_with_words_or_without() -> None:
    said = {agent: Message(agent, 0, CONTRIBUTE, text) for agent, (text,) in SPECIALISTS.items()}
    said["researcher"] = replace(said["researcher"], text="", payload=KEPT)
    (turn,) = turns_of(PromptBuilder(Prompts(), {"question": "?"}, None), [*said.values()])
    heard = [part.message.agent for part in turn.parts if isinstance(part, MessageRef)]
    assert heard == ["researcher", "calculator", "analyst"]
    assert turn.text.count("<message>") == 2 and "researcher" not in turn.text


def test_names_and_edges() -> None:
    five = Pipeline(shape="hierarchical", agents=5)
    assert five.names() == ["calculator", "researcher", "analyst", "specialist_4", "specialist_5", "summariser"]
    assert five.edges() == [(agent, "summariser") for agent in five.speakers()]
    assert len(Pipeline().edges()) == 3 + 2 + 1


def test_a_sequential_pipeline_of_another_number_of_agents_is_refused() -> None:
    with pytest.raises(UsageError, match=r"agents is 5, but a sequential pipeline always has .*`shape='hierarchical'`"):
        Pipeline(agents=5)


def test_the_summariser_waits_for_a_specialist_that_is_asked_again() -> None:
    model = scripted("hierarchical", researcher=["Plus first.", "Times goes first."])
    once = Once("again", "researcher")
    state = held(scheme("pipeline").create(Pipeline(shape="hierarchical"), models=model, watch=once).compile())
    assert [asked.agent for asked in model.calls].count("summariser") == 1 and state["decision"]["answer"] == "22"
    assert "Times goes first." in model.calls[-1].text and "Plus first." not in model.calls[-1].text


def test_a_muted_refiner_hides_nothing_of_those_before_it(store: PayloadStore) -> None:
    model, once = lonely("kv", store, options={"carry": "prompt"}), Once("mute", "refiner")
    record = run_one(Task("pipeline", Pipeline(), QUESTION, models=model, watch=once), store)
    said = {(each.agent, each.attempt): each for each in record.messages}
    heard = {prompt.agent: prompt.heard or [] for prompt in record.prompts}
    assert said["refiner", 1].notes == ("muted",) and said["critic", 0].payload is not None
    forms = {each["place"].agent: each["form"] for each in heard["judge"]}
    assert forms == {"critic": "payload", "refiner": "words"}  # "(nothing)"


@pytest.mark.parametrize("protocol", some(PROTOCOLS.names(), "cipher", "kv"))
def test_specialists_hand_over_by_every_protocol(protocol: str, store: PayloadStore) -> None:
    state = piped("hierarchical", lonely(protocol, store), {"target": "22"})
    *before, last = [message for message in board(state) if message.asked != "answer"]
    assert [message.agent for message in (*before, last)] == SHAPES["hierarchical"]
    assert {message.payload.protocol for message in before if message.payload} == {protocol}
    assert last.payload is not None and last.payload.protocol == "nl"
