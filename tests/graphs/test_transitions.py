"""Which node follows which, and what each writes: the schemes as seen from outside, kept as snapshots.

Snapshots hold shapes and words, no digest and no number that another CPU could round otherwise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.state import CompiledStateGraph
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import Message
from sottovoce.channels.store import PayloadStore
from sottovoce.core.any_types import AnyState
from sottovoce.graphs import NAMES, scheme
from sottovoce.graphs.discussion import MesSync, create_discussion
from sottovoce.nodes.rules import DiscussionRule
from sottovoce.nodes.watch import Intervention
from tests.graphs.coding import block, reviews
from tests.graphs.support import NEEDED, QUESTION, lonely, marked
from tests.graphs.test_discussion import Patient
from tests.tables import some

Graph = CompiledStateGraph[AnyState, AnyState, AnyState, AnyState]
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "debate": ("debate", {"agents": 3, "rounds": 2}),
    "debate_each": ("debate", {"agents": 2, "rounds": 2, "summarise": "each"}),
    "debate_shared": ("debate", {"agents": 2, "rounds": 2, "summarise": "shared"}),
    "debate_one_round": ("debate", {"agents": 2, "rounds": 1, "summarise": "shared"}),
    "debate_votes": (
        "debate",
        {"agents": 3, "rounds": 2, "retain": "diverse", "rule": "ranked", "persona": "written", "stop": "all"},
    ),
    "debate_judge": ("debate", {"agents": 3, "rounds": 1, "hears": "star", "rule": "judge"}),
    "mad": ("mad", {"rounds": 2}),
    "mad_three": ("mad", {"agents": 3, "rounds": 1}),
    "reconcile": ("reconcile", {"rounds": 1}),
    "cmd": ("cmd", {"agents": 4, "rounds": 2}),
    "cmd_levels": ("cmd", {"agents": 4, "rounds": 1, "secretary": False}),
    "madra": ("madra", {"rounds": 2, "n_wiki": 2}),
    "react": ("react", {"agents": 2, "steps": 3}),
    "ia": ("ia", {"rounds": 3}),
    "brief": ("brief", {"agents": 3, "know": "question"}),
    "brief_alone": ("brief", {"hears": "nothing"}),
    "pipeline": ("pipeline", {}),
    "pipeline_hierarchical": ("pipeline", {"shape": "hierarchical", "agents": 4}),
    "single": ("single", {}),
    "self_consistency": ("self_consistency", {"samples": 3}),
    "govsim": ("govsim", {"agents": 2, "months": 2, "utterances": 2}),
    "whodunit": ("whodunit", {"suspects": 3, "attributes": 3}),
    "codegen": ("codegen", {"agents": 2, "rounds": 2}),
    "whodunit_sym": ("whodunit", {"variant": "sym", "agents": 3, "suspects": 3, "attributes": 3, "facts": 1}),
}
OPEN = '{"Whether there is a preference": "No", "Supported Side": "", "Reason": "They differ.", "debate_answer": ""}'
SETTLED = '{"Whether there is a preference": "Yes", "Supported Side": "Affirmative", "debate_answer": "22"}'
SAYS, SURE = "The answer is {}.", '{{"reasoning": "So.", "answer": {}, "confidence_level": {}}}'
WISH, NOTES = "Half is enough.\nAnswer: {} tons", "Plan: the same.\nRemember: the lake."
ACT = '{{"thoughts": "So.", "action": {}}}'
SIDES = {"affirmative": [SAYS.format(22)] * 2, "negative": [SAYS.format(21)] * 2, "debater_3": [SAYS.format(20)]}
JUDGE = ["22, 21.", '{"Reason": "It is.", "debate_answer": "22"}']
SPLIT = {f"agent_{i}": [SAYS.format(22 if i % 2 else 21)] * 2 for i in range(1, 5)}
SCRIPTS: dict[str, dict[str, list[str]]] = {
    "debate_votes": {
        "writer": ['{"agent_1_role": "an expert", "agent_1_description": "It adds."}', "None of them."],
        **{f"agent_{i}": [SAYS.format(20 + i), SAYS.format(21 + i % 2), "1, 2"] for i in (1, 2, 3)},
        "moderator": ["agent_2, agent_3"],
    },
    "debate_judge": {**{f"agent_{i}": [SAYS.format(21 + i % 2)] for i in (1, 2, 3)}, "judge": ["None.", "1"]},
    "mad": {**SIDES, "moderator": [OPEN, SETTLED]},
    "mad_three": {**SIDES, "moderator": ["Hm.", OPEN], "judge": JUDGE},
    "reconcile": {f"agent_{i}": [SURE.format(20 + i % 2, i / 4)] * 2 for i in range(1, 4)},
    "cmd": {**SPLIT, "secretary": [SAYS.format(22)]},
    "cmd_levels": SPLIT,
    "madra": {
        **{f"agent_{i}": ["Evidence: [0]", SAYS.format(20 + i)] * 2 for i in (1, 2)},
        "judge": ["[NO]", "They do: [Yes]"],
        "summarizer": ["They say so. Answer: 22"],
    },
    "react": {
        "agent_1": [" Hm.\nAction 1: Search[Sève]", " It is 22.\nAction 3: Finish[22]"],
        "agent_2": [" I wonder.", " Lookup[long]"],
    },
    "govsim": {
        "John": [WISH.format(25), "Say: 25 each?\nDone: no\nNext: Kate", NOTES, WISH.format(25), "Yes.", NOTES],
        "Kate": [WISH.format(40), "Say: Yes.\nDone: yes\nNext: John", NOTES, *["All of it!"] * 2, "Sorry.", NOTES],
        "summarizer": ["They want 25 each.", "Answer: 25 tons", "They are sorry.", "Answer: N/A"],
    },
    "whodunit": {
        "Beth": [ACT.format("2"), "Hm.", ACT.format('3, "character": 2')],
        "Alex": [ACT.format('1, "value": "no"')],
    },
    "codegen": {
        "PythonAssistant": [block("def f():\n    return 22"), block("def f():\n    return 14 + 8", "[[5, 4, 3]]")],
        "AlgorithmDeveloper": [block("def f() return 22"), *[block("Hm.")] * 2],
        "Tester": ["assert f() == 22"],
        "Reflector": [reviews("Good.", "A colon is missing.")],
        "Ranker": ["[2, 1]"],
    },
    "whodunit_sym": {"": [ACT.format('1, "fact": 1'), ACT.format("3"), ACT.format('2, "character": 1')]},
    "brief": {"agent_1": ["14 and 15."], "agent_2": ["Then minus 7."], "agent_3": ["Hm.", " 22"]},
    "ia": {"agent_1": ["#Q: How many?", r"\boxed{22}"], "agent_2": ["#Q: Of what?", "#A: 22."]},
}
"""What is said where not everybody says 22: each scheme goes through all of its nodes."""


LONG: Any = {"configurable": {"thread_id": "1"}, "recursion_limit": 100}
FIRST = {name: case for case, (name, _) in reversed(CASES.items())}
"""A case of each scheme: its first."""
DIGEST = re.compile(r"(?<![.\w])[0-9a-f]{16,}\b")
TIME = re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:")


class Relay(DiscussionRule):
    """The first agent answers, and each further one goes on from the one before."""

    def first_speakers(self, agents: Sequence[str]) -> Sequence[str]:
        return agents[:1]

    def receivers(self, message: Message, state: Any, agents: Sequence[str]) -> Sequence[str]:
        return agents[message.round + 1 : message.round + 2]


def quiet(run: Any, state: Any, messages: Sequence[Message]) -> None:
    """Looks, and lets everything pass."""


def once_more(run: Any, state: Any, messages: Sequence[Message]) -> Intervention | None:
    """Has agent_1 say its first answer again."""
    (message,) = messages
    first = (message.agent, message.round, message.attempt) == ("agent_1", 0, 0)
    return Intervention("again", "it was its first") if first else None


def scripted(case: str) -> ScriptedChatModel:
    return ScriptedChatModel(SCRIPTS.get(case, {"": ["The answer is 22."] * 12}))


def built(name: str, settings: dict[str, Any], saver: Any = None, **more: Any) -> Graph:
    found = scheme(name)
    more |= NEEDED.get(name, {})
    graph: Graph = found.create(found.settings.model_validate(settings), **more).compile(saver, name=name)
    return graph


def transitions(graph: Graph, question: dict[str, Any]) -> list[dict[str, Any]]:
    """What every node of every step wrote, nodes of one step in order of their names."""
    steps: dict[int, list[tuple[str, Any]]] = {}
    for event in graph.stream(question, stream_mode="debug"):
        if event["type"] == "task_result":
            done = event["payload"]
            steps.setdefault(event["step"], []).append((done["name"], summary(dict(done["result"]))))
    return numbered(
        [
            {"step": step, "tasks": [{"node": node, "writes": writes} for node, writes in sorted(tasks, key=repr)]}
            for step, tasks in sorted(steps.items())
        ]
    )


def numbered(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Steps in which digests, which name pieces of evidence, are numbered as they come."""
    text = json.dumps(steps)
    for number, digest in enumerate(dict.fromkeys(DIGEST.findall(text)), start=1):
        text = text.replace(digest, f"digest {number}")
    found: list[dict[str, Any]] = json.loads(text)
    return found


def summary(writes: dict[str, Any]) -> dict[str, Any]:
    """An update without settings, digests, byte counts and measured numbers."""
    written = json.loads(json.dumps(writes))
    for message in written.get("board", []):
        message["stats"] = sorted(message["stats"])
        for name in ("sha256", "text_sha256", "nbytes", "summary"):
            if message["payload"] is not None:
                del message["payload"][name]
    if "settings" in written:
        written["settings"] = "(as given)"
    return {name: written[name] for name in sorted(written)}


@pytest.fixture
def as_json(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(JSONSnapshotExtension)


@pytest.mark.parametrize("case", CASES)
def test_transitions(case: str, as_json: SnapshotAssertion) -> None:
    name, settings = CASES[case]
    graph = built(name, settings, models=scripted(case))
    assert transitions(graph, {**QUESTION, "target": "22"}) == as_json


def test_every_scheme_is_a_case() -> None:
    assert set(FIRST) == set(NAMES)


@pytest.mark.parametrize("case", some([*CASES, "rule"], *FIRST.values(), "rule", "debate_votes"))
async def test_a_discussion_that_stops_after_every_step_or_runs_async_is_the_same_and_its_state_is_plain(
    case: str,
) -> None:
    """At each stop another graph takes over, with a rule of its own where a rule leads the discussion."""

    def compiled(saver: Any = None, model: Any = None) -> Graph:
        if case == "rule":
            graph = create_discussion(Patient(3), MesSync(answer_turn="off"), models=model or marked(3, 3))
            return graph.compile(checkpointer=saver)
        name, settings = CASES[case]
        return built(name, settings, saver, models=model or scripted(case))

    saver, question = InMemorySaver(), {**QUESTION, "target": "22"}
    model = marked(3, 3) if case == "rule" else scripted(case)
    graph, other = compiled(saver, model), compiled(saver, model)
    keys = [key for key in graph.builder.channels if key != "messages"]
    whole = compiled().invoke(question, LONG, output_keys=keys)

    graph.invoke(question, LONG, interrupt_after="*")
    while graph.get_state(LONG).next:
        graph, other = other, graph
        graph.invoke(None, LONG, interrupt_after="*")

    values = graph.get_state(LONG).values
    assert {key: values[key] for key in whole} == whole
    assert await compiled().ainvoke(question, LONG, output_keys=keys) == whole
    for snapshot in graph.get_state_history(LONG):
        assert json.loads(json.dumps(snapshot.values)) == snapshot.values


def test_transitions_of_a_discussion_by_a_rule(as_json: SnapshotAssertion) -> None:
    graph = create_discussion(Relay(), MesSync(agents=3), models=scripted("relay")).compile(name="discussion")
    assert transitions(graph, dict(QUESTION)) == as_json


@pytest.mark.parametrize("name", NAMES)
def test_order_of_nodes_under_a_watch_that_lets_everything_pass(name: str, snapshot: SnapshotAssertion) -> None:
    graph = built(name, CASES[FIRST[name]][1], models=scripted(FIRST[name]), watch=quiet)
    steps = transitions(graph, {**QUESTION, "target": "22"})
    assert [", ".join(task["node"] for task in step["tasks"]) for step in steps] == snapshot


def test_transitions_of_a_debate_in_which_a_watch_intervenes(as_json: SnapshotAssertion) -> None:
    graph = built("debate", {"agents": 2, "rounds": 1}, models=scripted("again"), watch=once_more)
    assert transitions(graph, dict(QUESTION)) == as_json


def test_transitions_of_a_debate_with_payloads(as_json: SnapshotAssertion, store: PayloadStore) -> None:
    settings = {"rounds": 2, "answer_turn": "off"}  # random weights never answer
    graph = built("debate", settings, models=lonely("sde", store, temperature=0.0))
    steps = transitions(graph, dict(QUESTION))
    for message in (each for step in steps for task in step["tasks"] for each in task["writes"].get("board", [])):
        message["text"], message["payload"]["tokens"] = "(random)", "(a few)"
        message["notes"] = []
    steps[-1]["tasks"][0]["writes"]["decision"] = "(random)"
    assert steps == as_json


@pytest.mark.parametrize("case", CASES)
def test_drawing(case: str, snapshot: SnapshotAssertion) -> None:
    name, settings = CASES[case]
    assert built(name, settings).get_graph().draw_mermaid() == snapshot


@pytest.mark.parametrize("name", NAMES)
def test_drawing_under_a_watch(name: str, snapshot: SnapshotAssertion) -> None:
    assert built(name, CASES[FIRST[name]][1], watch=quiet).get_graph().draw_mermaid() == snapshot


def test_no_snapshot_holds_a_digest_or_a_time() -> None:
    kept = [path for path in Path(__file__).with_name("__snapshots__").rglob("*") if path.is_file()]
    assert len(kept) > len(CASES)
    texts = {path.name: path.read_text(encoding="utf-8") for path in kept}
    assert [name for name, text in texts.items() if DIGEST.search(text) or TIME.search(text)] == []


def test_every_scheme_takes_a_question_and_returns_a_decision(as_json: SnapshotAssertion) -> None:
    graphs = [built(name, {}) for name in NAMES]
    schemas = [{"in": each.get_input_jsonschema(), "out": each.get_output_jsonschema()} for each in graphs]
    assert all(each["in"] == schemas[0]["in"] for each in schemas)
    assert all(each["out"]["properties"].items() >= schemas[0]["out"]["properties"].items() for each in schemas)
    assert schemas[0] == as_json


def test_the_server_knows_the_schemes_that_we_list() -> None:
    served = json.loads((Path(__file__).resolve().parents[2] / "langgraph.json").read_text(encoding="utf-8"))["graphs"]
    assert {name: graph["path"] for name, graph in served.items()} == {
        name: f"sottovoce.graphs.{name}:make_graph" for name in NAMES
    }
    assert all(graph["description"] for graph in served.values())
