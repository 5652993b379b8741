"""Words for holding a discussion in a test."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from langchain_core.outputs import ChatResult
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from pydantic import PrivateAttr
from typing_extensions import TypedDict

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.agents.scripted import RecordedCall, ScriptedChatModel
from sottovoce.channels.message import Message, MessageRef
from sottovoce.channels.store import PayloadRef, PayloadStore, text_digest
from sottovoce.core.any_types import AnyState, Untyped
from sottovoce.graphs import scheme
from sottovoce.graphs.debate import Debate, create_debate
from sottovoce.models import LoadedModel, Request, assemble
from sottovoce.nodes.context import Models
from sottovoce.nodes.watch import Intervention
from tests.graphs.coding import ScriptedRunner
from tests.support import tiny_model, tiny_tokenizer

QUESTION = {"question": "What is 14 + 3 * 5 - 7?", "id": "q1"}
NEEDED: dict[str, dict[str, Any]] = {"codegen": {"runner": ScriptedRunner()}}
"""What a scheme's graph is given besides, by its name: programs of models are run by nobody in these tests."""
KEPT = PayloadRef("kv", "a" * 64, text_digest(""), 0, 99, positions=7)
"""What a message without words hands over."""
KEYS = ["settings", "round", "board", "votes", "notes", "decision"]
OF_CMD = ["groups", "level"]
State = Untyped
THREAD: Any = {"configurable": {"thread_id": "1"}}
Graph = CompiledStateGraph[AnyState, AnyState, AnyState, AnyState]


def debating(models: Models = None, *, store: PayloadStore | None = None, saver: Any = None, **settings: Any) -> Graph:
    """A compiled debate of these settings."""
    return create_debate(Debate(**settings), models=models, store=store).compile(checkpointer=saver)


def held(graph: Graph, config: AnyState = None, **question: AnyState) -> AnyState:
    """The state of a discussion after its end, held synchronously."""
    keys = [*KEYS, *(key for key in OF_CMD if key in graph.channels)]
    return graph.invoke({**QUESTION, **question}, config, output_keys=keys)


def built(
    scheme_name: str, models: Models = None, *, store: PayloadStore | None = None, saver: Any = None, **settings: Any
) -> Graph:
    """A compiled graph of any scheme with these settings."""
    found = scheme(scheme_name)
    given = {"models": models, "store": store, **NEEDED.get(scheme_name, {})}
    graph: Graph = found.create(found.settings(**settings), **given).compile(checkpointer=saver)
    return graph


class Recording(HookedChatModel):
    """Keeps the requests that it made."""

    requests: list[Any] = []  # noqa: RUF012  # a pydantic field, copied for each model

    def request(self, *args: Any) -> Request:
        request = super().request(*args)
        self.requests.append(request)
        return request


class Once:
    """Intervenes at the first message of an agent in a round, or with a text in it, and never again."""

    def __init__(self, what: Any, agent: str = "", round: int | None = None, text: str = "", **more: Any) -> None:
        self.agent, self.round, self.text, self.done = agent, round, text, False
        self.intervention = Intervention(what, "it looks wrong", **more)

    def __call__(self, run: Any, state: Any, messages: Sequence[Message]) -> Intervention | None:
        last = messages[-1]
        here = self.agent in ("", last.agent) and self.round in (None, last.round) and self.text in last.text
        if self.done or not here:
            return None
        self.done = True
        return self.intervention


class InOrder(ScriptedChatModel):
    """Lets the agents of a round speak in one order only; who is not named in it speaks whenever it is asked."""

    order: tuple[str, ...] = ()
    _turn: Untyped = PrivateAttr(default_factory=threading.Condition)
    _spoken: int = PrivateAttr(default=0)

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        agent, n = run_manager.metadata["agent"], len(self.order)
        with self._turn:
            assert agent not in self.order or self._turn.wait_for(
                lambda: self.order[self._spoken % n] == agent, timeout=600
            )
            result = super()._generate(messages, stop, run_manager, **kwargs)
            self._spoken += agent in self.order
            self._turn.notify_all()
        return result


class Asking(TypedDict):
    """The state of a graph around a discussion."""

    question: str
    decision: Any


def around(child: Graph, schema: Any = Asking, saver: Any = None) -> Graph:
    """A graph with another one as its only node."""
    graph: Any = StateGraph(schema)
    graph.add_node("discuss", child)
    graph.add_edge(START, "discuss")
    made: Graph = graph.compile(checkpointer=saver)
    return made


def script(answers: Mapping[str, list[str]], **more: Any) -> ScriptedChatModel:
    """A model of which each agent gives these answers, round by round."""
    return ScriptedChatModel(
        {agent: [f"The answer is {answer}." for answer in said] for agent, said in answers.items()}, **more
    )


def marked(agents: int, rounds: int) -> ScriptedChatModel:
    """A model whose every reply says who speaks and in which round, and gives the round as answer."""
    names = [f"agent_{i + 1}" for i in range(agents)]
    return ScriptedChatModel({name: [f"{name[6:]} in {r}. Answer: {r}" for r in range(rounds)] for name in names})


def heard(asked: RecordedCall, turn: int | None = None) -> list[tuple[str, int]]:
    """Agent and round of every message in a prompt, or in one turn of it, in order."""
    turns = asked.turns if turn is None else (asked.turns[turn],)
    return [
        (part.message.agent, part.message.round)
        for turn in turns
        for part in turn.parts
        if isinstance(part, MessageRef)
    ]


def calls(model: ScriptedChatModel, agent: str, act: str | None = None) -> list[RecordedCall]:
    """What an agent was asked, in order."""
    return [asked for asked in model.calls if asked.agent == agent and act in (None, asked.act)]


def texts(state: State) -> dict[tuple[int, str, str], str]:
    """The words on the board, by round, agent and act."""
    return {(message.round, message.agent, message.act): message.text for message in board(state)}


def board(state: State) -> list[Message]:
    """The messages of a state."""
    return [each if isinstance(each, Message) else Message.from_dict(each) for each in state["board"]]


def replies(state: State) -> list[Message]:
    """Its messages without what was said in answer turns, of which random weights make many."""
    return [message for message in board(state) if message.asked != "answer"]


@cache
def lonely_loaded() -> LoadedModel:
    """A model that reads each request alone and anew, so that a run repeats bit for bit: cipher on random weights is
    chaotic."""
    model = tiny_model(max_position_embeddings=4096)
    return assemble("lonely", model, tiny_tokenizer(), max_batch=1, reuse=False)


def lonely(protocol: str, store: PayloadStore, **more: Any) -> HookedChatModel:
    """An agent that thinks with it."""
    return HookedChatModel(protocol=protocol, preloaded=lonely_loaded(), store=store, max_tokens=6, **more)


def outcome(state: State) -> tuple[dict[tuple[int, str, str], str], object]:
    """What "the same result" means: words and decision (payload digests may differ)."""
    return texts(state), state["decision"]
