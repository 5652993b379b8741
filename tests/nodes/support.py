"""A scheme of the tests' own, whose acts a test brings: agents with names that no alphabet puts in their order."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from langchain_core.outputs import ChatResult
from pydantic import Field, PrivateAttr

from sottovoce.agents.ask import Ask
from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import Message, Place, Turn
from sottovoce.core.any_types import JSONValue
from sottovoce.graphs.frame import Frame
from sottovoce.graphs.scheme import Scheme
from sottovoce.nodes.context import Contexts, RunContext
from sottovoce.nodes.settings import Settings
from sottovoce.nodes.state import Discussion

NAMES = ["zoe", "agent_10", "agent_2", "Bob"]


class Named(Settings):
    """Four agents."""

    rounds: int = Field(default=1, ge=1, description="rounds")

    def speakers(self) -> list[str]:
        """In an order of their own."""
        return NAMES


SCHEME = Scheme("named", Named, Frame, answers=("talk",))
Run = RunContext[Named]


def framed(model: Any, **more: Any) -> Frame:
    """A frame in which nobody speaks yet."""
    return Frame(SCHEME, Named(), model, **more)


def run_of(model: Any = None, **settings: Any) -> Run:
    """The context of a run."""
    made = Named(**settings)
    return Contexts(Named, made, model or ScriptedChatModel()).of(state_of(settings=made.model_dump(mode="json")))


def state_of(**more: Any) -> Discussion:
    """A state in the middle of a discussion."""
    plain = {"question": "1 + 1?", "id": "q", "settings": Named().model_dump(mode="json")}
    return cast(Discussion, {**plain, "round": 0, "turn": 0, "epochs": [], "marks": [], "board": [], **more})


def ask(text: str = "?", act: str = "talk", **more: Any) -> Ask:
    """A question in one turn."""
    return Ask(act, (Turn("user", (text,)),), **more)


def places(model: ScriptedChatModel) -> list[Place]:
    """Where the replies of all calls were to stand."""
    return [Place(**asked.place) for asked in model.calls]


def told(messages: Iterable[Message]) -> list[tuple[str, str]]:
    """Who said what."""
    return [(message.agent, message.text) for message in messages]


class Failing(ScriptedChatModel):
    """Fails at some calls, counted from 0, as a hosted model does now and then; it takes no reply for them."""

    fails: tuple[int, ...] = ()
    tried: list[Mapping[str, JSONValue]] = Field(default_factory=list)
    """Every call, those that failed too: its place and its seed."""
    _calls: int = PrivateAttr(default=0)

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        place = Place(**{name: run_manager.metadata[name] for name in Place._fields})
        self.tried.append({"place": place, "seed": kwargs.get("seed")})
        self._calls += 1
        if self._calls - 1 in self.fails:
            raise TimeoutError("the line is down")  # is not asked again
        return super()._generate(messages, stop, run_manager, **kwargs)


class Unsure(ScriptedChatModel):
    """Returns log-probabilities as OpenAI does: those of a reply with a question mark are even, of others steep."""

    hooked: bool = False
    logprobs: bool | None = True
    top_logprobs: int | None = 10

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        result = super()._generate(messages, stop, run_manager, **kwargs)
        reply = result.generations[0].message
        if self.logprobs:
            text = str(reply.content)
            reply.response_metadata = {"logprobs": {"content": [_token(each, "?" in text) for each in _tokens(text)]}}
        return result


def _tokens(text: str) -> list[str]:
    return re.findall(r"\s*\S+|\s+$", text)


def _token(text: str, even: bool) -> dict[str, Any]:
    odds = [0.0] * 10 if even else [8.0] + [0.0] * 9
    whole = math.log(sum(map(math.exp, odds)))
    return {"token": text, "top_logprobs": [{"token": text, "logprob": each - whole} for each in odds]}
