"""A run that is stopped, killed or out of room goes on where it was, and comes to the same result."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send, interrupt

from sottovoce import Frame, Scheme, run_questions
from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import Message, Place
from sottovoce.channels.store import PayloadStore
from sottovoce.core.errors import RecordError
from sottovoce.datasets.samples import samples
from sottovoce.graphs import SCHEMES
from sottovoce.graphs.debate import Debate, create_debate
from sottovoce.graphs.scheme import record_of
from sottovoce.nodes.question import question_id
from sottovoce.nodes.settings import Settings
from sottovoce.nodes.state import Discussion
from sottovoce.nodes.watch import Intervention, Watch
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.run import Run, load_run
from sottovoce.runs.run_directory import lines_of
from sottovoce.runs.runner import resume_run, run_all
from tests.runs.killed import hold, killed_often, said
from tests.runs.schemes import LIVED, VOTED, WATCHED, WEIGHED, Replies, says
from tests.runs.support import QUESTION, RecordedChatModel

EXACT = Debate(rounds=2, exact=True, max_tokens=60)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, tuple[Any, ...]]]:
    """A run that nobody stopped, and how it was held."""
    told = ("debate", EXACT, samples("arithmetic", 4, EXACT, 0), 4)
    folder = tmp_path_factory.mktemp("runs") / "unbroken"
    hold(folder, *told)
    yield folder, told


@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_a_run_that_was_killed_has_the_result_of_an_unbroken_one(
    kills: int, unbroken: tuple[Path, tuple[Any, ...]], tmp_path: Path
) -> None:
    whole, told = unbroken

    killed_often(tmp_path / "run", kills, 2.0, 1, *told)

    assert said(tmp_path / "run") == said(whole) and load_run(tmp_path / "run").status == "done"


@pytest.mark.slow
def test_fifty_kills_change_nothing(tmp_path: Path) -> None:
    told = ("debate", EXACT, samples("arithmetic", 40, EXACT, 0), 16)
    hold(tmp_path / "whole", *told)

    kills = runs = 0
    while kills < 50:
        folder = tmp_path / f"run-{runs}"
        kills += killed_often(folder, 10, 2.0, runs, *told)
        runs += 1
        assert said(folder) == said(tmp_path / "whole")

    print(f"{kills} kills in {runs} runs")


# A log that ends after any of its lines


class At:
    """A watch without a memory: it intervenes at the first attempt of an agent in a round."""

    def __init__(self, what: Any, agent: str = "agent_1", round: int = 1) -> None:
        self.what, self.at = what, (agent, round)

    def __call__(self, run: Any, state: Any, messages: Any) -> Intervention | None:
        last = messages[-1]
        first = (last.agent, last.round) == self.at and not last.attempt and not state.get("epochs")
        return Intervention(self.what, "it wavers") if first else None


def replied(value: Any) -> Any:
    """The reply of a person, which differs by request and cannot be read at first."""
    if "approve" in value:
        return {"approve": True}
    return f"{value['act']}: 22" if value["begun"] else "Hm."


CASES: dict[str, tuple[tuple[Settings, Replies], Watch | None]] = {
    "a scheme": (WEIGHED, None),
    "votes at the end": (VOTED, None),
    "a world": (LIVED, None),
    "a reset": ((Debate(rounds=2), WATCHED), At("reset")),
    "a take-over": ((Debate(rounds=2, intervention="human"), WATCHED), At("human")),
    "approved": ((Debate(rounds=2, approve=["answer"]), WATCHED), None),
    "a person": ((Debate(rounds=1, human=["agent_1"]), {"agent_2": [says(22)] * 3}), None),
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_is_resumed_from_its_log_alone_after_any_line_to_the_same_steps(case: str, tmp_path: Path) -> None:
    (settings, replies), watch = CASES[case]
    scheme = record_of(settings).name

    def run_on(run: Run, models: Any) -> None:
        run_all(run, settings, PayloadStore(tmp_path / "p"), models=models, watch=watch, person=replied)

    def steps(folder: Path) -> list[Any]:
        lines = [line for _, line in lines_of(folder) if line["line"] in ("step", "replied")]
        return sorted((line["task"], json.dumps({**line, "seconds": 0})) for line in lines)

    whole, first = tmp_path / "whole", ScriptedChatModel(replies)
    manifest = new_manifest(scheme, settings, [QUESTION], models=first)
    run_on(Run.start(manifest, [QUESTION], whole), first)
    done = load_run(whole).only
    assert done.decision is not None
    said = {(f"{settings.seed}/{question_id(QUESTION)}", each.place): each for each in done.messages}
    lines = (whole / "log.jsonl").read_text().splitlines(keepends=True)
    for n in range(2, len(lines) - 1, max(1, len(lines) // 7)):
        folder = tmp_path / str(n)
        folder.mkdir()
        (folder / "log.jsonl").write_text("".join(lines[:n]))
        models = RecordedChatModel(said=said, hooked=first.hooked)
        before = load_run(folder)
        spoken = {each.place for each in before.only.messages}
        run_on(resume_run(before, models=models, settings=settings), models)
        assert steps(folder) == steps(whole), n
        asked = [line for _, line in [*lines_of(folder)][n:] if line["line"] == "asked"]
        assert not [line for line in asked if Place(*(line[name] for name in Place._fields)) in spoken]


# Nodes that LangGraph runs several times at once, or that say what runs next


class Fan(Settings):
    """Three agents."""

    agents: int = 3


def create_fan(settings: Fan | None = None, **inputs: Any) -> Any:
    """Return a graph in which a command leads to three sends, which run one node for three agents."""
    frame = Frame(FAN, Fan.parse(settings), **inputs)

    def work(state: Any) -> dict[str, Any]:
        n = state["n"]
        if state["question"] == "broken":
            return {"board": [7]}
        return {"board": [Message(f"agent_{n}", 0, "answer", f"Answer: {n}", order=n).to_dict()]}

    def sends(state: Any) -> list[Send]:
        return [Send("work", {**state, "n": n}) for n in (1, 2, 3)]

    frame.graph.add_node("lead", lambda state: Command(update={"turn": 1}, goto="fork"))
    frame.graph.add_node("fork", lambda state: {})
    frame.graph.add_node("work", work)
    frame.graph.add_edge("next_round", "lead")
    frame.graph.add_conditional_edges("fork", sends, ["work"])
    frame.graph.add_edge("work", "decide")
    return frame.graph


FAN = Scheme("fan", Fan, create_fan, answers=("answer",))


@pytest.fixture
def fan(tmp_path: Path) -> Iterator[Callable[[int | None], Any]]:
    """A discussion of that scheme, of which only so many lines were logged before it was resumed."""
    lines = list[str]()

    def discussed(logged: int | None = None) -> Any:
        folder = tmp_path / str(logged)
        if logged is not None:
            folder.mkdir()
            (folder / "log.jsonl").write_text("".join(lines[:logged]))
        run = run_questions(FAN, QUESTION, models=ScriptedChatModel([]), folder=folder)
        lines[:] = lines or (folder / "log.jsonl").read_text().splitlines(keepends=True)
        return run.records[0], lines

    yield discussed
    SCHEMES._known.pop("fan", None)


def test_sends_to_one_node_and_commands_are_repeated_each_as_it_was(fan: Any) -> None:
    whole, lines = fan(None)
    assert [vote["answer"] for vote in whole.decision["votes"]] == ["1", "2", "3"] and whole.decision["why"]

    for n in range(2, len(lines) - 1):
        again, _ = fan(n)
        assert (again.error, again.decision, again.messages) == (None, whole.decision, whole.messages), lines[n]


def test_an_update_that_is_no_update_fails_its_own_discussion_only(fan: Any) -> None:
    # It ended the whole run with a traceback.
    run = run_questions(FAN, ["broken", QUESTION], models=ScriptedChatModel([]))

    assert [record.status for record in run.records] == ["failed", "done"]


def test_a_damaged_step_ends_in_one_line_when_it_is_repeated(fan: Any) -> None:
    # Routers and events of an update that was damaged ended in tracebacks.
    _, lines = fan(None)
    opening = next(n for n, line in enumerate(lines) if '"1/opening"' in line)
    line = json.loads(lines[opening])
    lines[opening] = json.dumps({**line, "update": {**line["update"], "notes": 7}}) + "\n"

    with pytest.raises(
        RecordError, match=r"is damaged: the steps of question .* cannot be repeated .*; restore the log"
    ):
        fan(opening + 2)


def test_the_steps_of_a_discussion_that_an_agent_holds_itself_are_not_the_run_s(tmp_path: Path) -> None:
    inner = create_debate(Debate(rounds=1), models=ScriptedChatModel([says(22)] * 4)).compile()

    async def think(messages: Any) -> str:
        return f"The answer is {(await inner.ainvoke(QUESTION))['decision']['answer']}."

    models: Any = RunnableLambda(think)
    run = run_questions("debate", QUESTION, {"agents": 2, "rounds": 1}, models=models, folder=tmp_path / "run")

    lines = [line for _, line in lines_of(tmp_path / "run")]
    tasks = [line["task"] for line in lines if line["line"] == "step"]
    assert run.records[0].decision is not None and len(tasks) == len({*tasks})
    assert [line["agent"] for line in lines if line["line"] == "asked"] == ["agent_1", "agent_2"]
    assert [message.text for message in run.records[0].messages] == ["The answer is 22."] * 2


def test_a_graph_that_is_a_node_of_a_scheme_is_drawn_and_its_state_is_found() -> None:
    inner: Any = StateGraph(Discussion)
    inner.add_node("think", lambda state: {"turn": interrupt("?")})
    inner.add_edge(START, "think")
    frame = Frame(FAN, Fan(), models=ScriptedChatModel([]))
    frame.graph.add_node("inner", inner.compile())
    frame.graph.add_edge("next_round", "inner")
    frame.graph.add_edge("inner", "decide")
    thread: Any = {"configurable": {"thread_id": "1"}}
    graph: Any = frame.graph.compile(checkpointer=InMemorySaver())

    graph.invoke(QUESTION, thread)

    assert "inner:think" in graph.get_graph(xray=True).nodes
    assert graph.get_state(thread, subgraphs=True).tasks[0].state.next == ("think",)
