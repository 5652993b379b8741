"""CPU time of a message through graph and log, with a model whose replies cost nothing.

LangGraph's own share is that of a graph with the same nodes, edges and keys, whose nodes only return their update.
"""

from __future__ import annotations

import asyncio
import operator
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from benchmarks.measuring import Options, Table, interleaved
from sottovoce.agents.convert import to_turns
from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.graphs.debate import create_debate
from sottovoce.nodes.question import Question
from sottovoce.nodes.state import JSON, Discussion, Update
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.run import Run
from sottovoce.runs.runner import payload_store, run_all
from sottovoce.settings import Debate

DEBATES = 64
SETTINGS = Debate(agents=2, rounds=3)
MESSAGES = SETTINGS.agents * SETTINGS.rounds
REPLY = "First 3 * 5 is 15, then 14 + 15 is 29, and 29 - 7 is 22.\nAnswer: 22"
AIM = {"with a run directory": "3.0"}


class Instant(ScriptedChatModel):
    """A model that reads its prompt as a local one does, and replies at once on the event loop."""

    async def _agenerate(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> ChatResult:  # Any: LangChain's
        to_turns(messages)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=REPLY))])


def tables(options: Options) -> Iterator[Table]:
    """Yield the milliseconds of a message: LangGraph alone, our graph, and with a saved run."""
    n = options.most(DEBATES, 2)
    questions: list[Question] = [{"id": str(i), "question": f"What is {10 + i} + 3 * 5 - 7?"} for i in range(n)]
    runs = {
        "LangGraph alone": partial(_invoke, bare(), questions),
        "our graph": partial(_run_graph, questions),
        "in memory": partial(_run_saved, questions, saved=False),
        "with a run directory": partial(_run_saved, questions, saved=True),
    }
    measured, table = interleaved(runs, options.repeats, options.clock), Table()
    table.add(f"{n} debates of {SETTINGS.agents} agents, {SETTINGS.rounds} rounds", "ms a message", "aim")
    for name in runs:
        table.add(name, f"{1000 * measured.median(name) / n / MESSAGES:.2f}", AIM.get(name, ""))
    yield table


def bare() -> Any:  # Any: a compiled graph
    """Return a graph with the nodes, edges and keys of the debate, and LangGraph's own channels for messages."""
    keys = {**get_type_hints(Discussion, include_extras=True), "board": Annotated[list[JSON], operator.add]}
    plain: Any = TypedDict("Plain", keys)  # type: ignore[misc]  # made at run time
    graph: Any = StateGraph(plain, input_schema=Question)
    said = {"agent": "", "act": "answer", "text": REPLY, "notes": [], "stats": {}}
    first: Update = {"settings": SETTINGS.model_dump(mode="json"), "round": -1, "turn": 0, "epochs": [], "marks": []}

    async def another_round(state: Any) -> Literal["next_round", "decide"]:  # Any: the keys above
        return "next_round" if state["round"] + 1 < SETTINGS.rounds else "decide"

    def say(agent: str, order: int, state: Discussion) -> Update:
        return {"board": [{**said, "agent": agent, "round": state["round"], "order": order}]}

    graph.add_node("opening", _node(lambda state: first))
    graph.add_node("next_round", _node(lambda state: {"round": state["round"] + 1, "turn": 0}))
    graph.add_node("close_round", _node(lambda state: {}))
    graph.add_node("decide", _node(lambda state: {"decision": {"answer": "22"}, "votes": []}))
    for order, agent in enumerate(SETTINGS.names()):
        graph.add_node(agent, _node(partial(say, agent, order)))
        graph.add_edge("next_round", agent)
        graph.add_edge(agent, "close_round")
    graph.add_edge(START, "opening")
    graph.add_edge("opening", "next_round")
    graph.add_conditional_edges("close_round", another_round)
    graph.add_edge("decide", END)
    return graph.compile()


def _node(act: Any) -> Any:  # Any: a function of a state to its update
    async def node(state):  # type: ignore[no-untyped-def]  # LangGraph would read hints
        return act(state)

    return node


def _invoke(graph: Any, questions: list[Question]) -> None:  # Any: see bare
    async def together() -> None:
        await asyncio.gather(*(graph.ainvoke(question, output_keys=["decision"]) for question in questions))

    asyncio.run(together())


def _run_graph(questions: list[Question]) -> None:
    with tempfile.TemporaryDirectory() as folder, payload_store(Path(folder)) as store:
        _invoke(create_debate(SETTINGS, models=Instant(), store=store).compile(), questions)


def _run_saved(questions: list[Question], *, saved: bool) -> None:
    model = Instant()
    with tempfile.TemporaryDirectory() as temporary, payload_store(Path(temporary)) as store:
        manifest = new_manifest("debate", SETTINGS, questions, models=model)
        run = Run.start(manifest, questions, Path(temporary) / "run" if saved else None)
        run_all(run, SETTINGS, store, models=model)
    assert not run.unfinished, "every question has its decision"
