"""Senders and the agent that answers: who reads what, what needs no words, and both bounds."""

from __future__ import annotations

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels import PROTOCOLS
from sottovoce.channels.message import Message, MessageRef
from sottovoce.channels.store import PayloadStore
from sottovoce.core.errors import UsageError
from sottovoce.graphs.brief import Brief, answer_turns
from sottovoce.nodes.prompt_builder import PromptBuilder
from sottovoce.prompts.render import Prompts
from tests.graphs.support import KEPT, State, board, built, heard, held, lonely
from tests.tables import some

FACTS = ["Mia has 3 apples.", "Mia lives in Ulm.", "Tom has 5 pears.", "Tom is old."]
ASKED: dict[str, Any] = {"question": "How many pears has Tom?", "kind": "number", "target": "5", "documents": FACTS}
SCRIPT = {"agent_1": ["Apples: 3."], "agent_2": ["Pears: 5."], "agent_3": ["The answer is 5."]}
BOUNDS = ("documents", "nothing")


def briefed(model: Any = None, question: dict[str, Any] | None = None, **settings: Any) -> tuple[State, Any]:
    model = model or scripted()
    return held(built("brief", model, **{"agents": 3, **settings}), **{**ASKED, **(question or {})}), model


def scripted(**replies: list[str]) -> ScriptedChatModel:
    return ScriptedChatModel({agent: said[:] for agent, said in (SCRIPT | replies).items()})


@pytest.mark.parametrize("settings", [{}, {"know": "question"}, *({"hears": bound} for bound in BOUNDS)], ids=str)
def test_prompts(settings: dict[str, Any], snapshot: SnapshotAssertion) -> None:
    _, model = briefed(**settings)
    assert {asked.agent: asked.text for asked in model.calls} == snapshot


def test_documents_are_dealt_to_the_senders_who_do_not_read_the_question() -> None:
    _, model = briefed()
    known = {asked.agent: [fact for fact in FACTS if fact in asked.text] for asked in model.calls}
    assert known == {"agent_1": FACTS[::2], "agent_2": FACTS[1::2], "agent_3": []}
    asking = [asked.agent for asked in model.calls if ASKED["question"] in asked.text]
    assert asking == ["agent_3"]


def test_only_the_last_agent_needs_words_and_its_answer_decides() -> None:
    state, model = briefed(brief_tokens=7)
    asked = {each.agent: each.options for each in model.calls}
    assert [asked[agent].get("silent") for agent in SCRIPT] == [True, True, None]
    assert [asked[agent].get("max_tokens") for agent in SCRIPT] == [7, 7, None]
    assert [asked[agent].get("speaks") for agent in SCRIPT] == [None, None, "nl"]
    decision = state["decision"]
    assert (decision["answer"], decision["score"]) == ("5", 1.0)
    assert [vote["agent"] for vote in decision["votes"]] == ["agent_3"]
    assert [decision[key] for key in ("rule", "why", "by")] == ["receiver", "agent_3 answered", "agent_3"]


@pytest.mark.parametrize(("hears", "facts"), [("documents", FACTS), ("nothing", [])])
def test_at_both_bounds_no_sender_speaks(hears: str, facts: list[str]) -> None:
    state, model = briefed(hears=hears)
    (asked,) = model.calls
    assert asked.agent == "agent_3" and [fact for fact in FACTS if fact in asked.text] == facts
    assert state["decision"]["answer"] == "5"


def test_briefs_without_words_stand_before_the_text_and_are_not_quoted() -> None:
    wordless, worded = (Message("agent_1", 0, "brief", text, payload=KEPT) for text in ("", "22."))
    builder = PromptBuilder(Prompts(), {"question": "?"}, None)
    (turn,) = answer_turns(builder, [worded, wordless])
    assert [part for part in turn.parts if not isinstance(part, str)] == [MessageRef(wordless), MessageRef(worded)]
    assert turn.text.count("<message>") == 1
    (turn,) = answer_turns(builder, [wordless, wordless])
    assert turn.text.startswith("Question: ")


def test_an_empty_brief_is_quoted_as_nothing() -> None:
    _, model = briefed(scripted(agent_1=[""]))
    assert heard(model.calls[-1]) == [("agent_1", 0), ("agent_2", 0)]
    assert "You are told:\n<message>\n(nothing)\n</message>" in model.calls[-1].text


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"control": "own"}, "control is 'own', but the last agent has no earlier message"),
        ({"escalate": "disagreement"}, "escalate is 'disagreement', but only one agent answers"),
        ({"hears": "nothing", "control": "empty"}, "hears is 'nothing', so no message is heard"),
    ],
)
def test_settings_without_a_meaning_are_refused(settings: dict[str, Any], found: str) -> None:
    with pytest.raises(UsageError, match=found):
        Brief(**settings)


@pytest.mark.parametrize(
    ("documents", "found"),
    [
        ([], "without `know='question'`, senders read only documents, but the question has no 'documents'"),
        (FACTS[:1], "agent_2 has no document and does not know the question"),
        ({"agent_2": FACTS}, "agent_1 has no document and does not know the question"),
    ],
)
def test_a_sender_without_anything_to_read_is_refused_unless_it_knows_the_question(documents: Any, found: str) -> None:
    with pytest.raises(UsageError, match=found):
        briefed(question={"documents": documents})
    for settings in ({"know": "question"}, *({"hears": bound} for bound in BOUNDS)):
        assert briefed(question={"documents": documents}, **settings)[0]["decision"]["answer"] == "5"


def test_names_edges_and_roles() -> None:
    assert Brief(agents=3).edges() == [("agent_1", "agent_3"), ("agent_2", "agent_3")]
    assert Brief(hears="nothing").edges() == []
    assert [Brief().role_of(agent) for agent in Brief().names()] == ["sender", "receiver"]


@pytest.mark.parametrize("protocol", some(PROTOCOLS.names(), "cipher", "kv"))
def test_senders_write_words_only_if_the_protocol_needs_them(protocol: str, store: PayloadStore) -> None:
    state, _ = briefed(lonely(protocol, store), brief_tokens=4)
    *briefs, last = [message for message in board(state) if message.asked != "answer"]
    assert {message.payload.protocol for message in briefs if message.payload} == {protocol}
    assert last.payload is not None and last.payload.protocol == "nl"
    assert {bool(message.text) for message in briefs} == {not PROTOCOLS[protocol]().silent}


def test_senders_write_words_for_a_receiver_that_hears_nothing_else(store: PayloadStore) -> None:
    hosted = ScriptedChatModel(["The answer is 5."], hooked=False)
    models = {"agent_1": lonely("kv", store), "agent_2": lonely("kv", store), "agent_3": hosted}
    state, _ = briefed(models, brief_tokens=4)
    assert all(message.text for message in board(state)) and "<message>" in hosted.calls[0].text
