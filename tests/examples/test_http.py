"""The recipe for graphs behind HTTP (docs/howto/embedding.md): a client that leaves ends its discussion."""

from __future__ import annotations

import asyncio
import json
import runpy
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.graph import START, StateGraph
from pydantic import PrivateAttr
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from sottovoce import Debate, Decision, create_debate
from tests.test_readme import FENCED

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "embedding.md"


class Asked(TypedDict, total=False):
    """The state of the graphs around a debate."""

    question: str
    decision: Decision


class Paid(BaseChatModel):
    """A hosted model that replies when it may, and counts the calls that began and that were cancelled."""

    may: Any
    _begun: Any = PrivateAttr(default_factory=asyncio.Event)
    _calls: list[str] = PrivateAttr(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "paid"

    def _generate(self, *args: Any, **options: Any) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(self, *args: Any, **options: Any) -> ChatResult:
        self._calls.append("begun")
        self._begun.set()
        try:
            await self.may.wait()
        except asyncio.CancelledError:
            self._calls.append("cancelled")
            raise
        return ChatResult(generations=[ChatGeneration(message=AIMessage("The answer is 2."))])


async def answered(folder: Path, *, leaves: bool) -> tuple[Response, list[str]]:
    """The response to a client that waits, or leaves when the first call has begun; and the model's calls."""
    model = Paid(may=asyncio.Event())
    graph: Any = create_debate(Debate(agents=2, rounds=2), models=model).compile()
    for _ in range(2):
        graph = StateGraph(Asked).add_node("inner", graph).add_edge(START, "inner").compile()
    body = {"type": "http.request", "body": json.dumps({"question": "What is 1 + 1?"}).encode()}
    messages = [body]

    async def receive() -> Any:
        if messages:
            return messages.pop()
        await model._begun.wait()
        if leaves:
            return {"type": "http.disconnect"}
        model.may.set()
        return await asyncio.Event().wait()

    code = next(code for _, code in FENCED.findall(PAGE.read_text("utf-8")) if "http.disconnect" in code)
    (folder / "recipe.py").write_text(code, "utf-8")
    recipe = runpy.run_path(str(folder / "recipe.py"), {"graph": graph})
    return await recipe["discuss"](Request({"type": "http", "headers": []}, receive)), [*model._calls]


def test_a_client_that_leaves_ends_its_discussion_and_those_within_it(tmp_path: Path) -> None:
    response, calls = asyncio.run(answered(tmp_path, leaves=True))
    assert response.status_code == 499
    assert calls.count("begun") == calls.count("cancelled") <= 2  # the first answer of one agent or of both


def test_a_client_that_waits_gets_its_decision(tmp_path: Path) -> None:
    response, calls = asyncio.run(answered(tmp_path, leaves=False))
    assert json.loads(bytes(response.body))["answer"] == "2"
    assert calls == ["begun"] * 4
