"""The run context (settings, agents and prompts of one run), and `Contexts`, which build it from graph and runtime.

State has the settings as plain JSON, and never contains models. A graph may receive model objects
(any LangChain chat model, one for all agents or by name); otherwise they are created from the settings.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from langchain_core.caches import BaseCache
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatResult
from langchain_core.runnables import Runnable
from langgraph.pregel import Pregel
from langgraph.runtime import get_runtime
from pydantic import Field, PrivateAttr

from sottovoce.agents import convert
from sottovoce.agents.ask import WORDS
from sottovoce.agents.hooked import HookedChatModel
from sottovoce.agents.hosted import hosted, is_hosted
from sottovoce.agents.hosted_thinking import check_switch
from sottovoce.agents.parameters import Refused
from sottovoce.agents.person import BEGINNING, Person
from sottovoce.channels import PROTOCOLS
from sottovoce.channels.message import Message
from sottovoce.core.any_types import AnyState, Unimported, Untyped
from sottovoce.core.errors import UsageError, nearest
from sottovoce.core.event_loop import off_loop, wait
from sottovoce.core.text import shortened
from sottovoce.core.trust import Allowed
from sottovoce.nodes.agent import Agent
from sottovoce.nodes.option_groups import OF_SAMPLING
from sottovoce.nodes.question import question_id
from sottovoce.nodes.settings import AnySettings, Settings
from sottovoce.nodes.state import Discussion, attempt_of, moment
from sottovoce.nodes.state_validation import check_state, check_types, settings_of
from sottovoce.nodes.streams import is_inside
from sottovoce.prompts import SHIPPED
from sottovoce.prompts.render import Prompts

T = TypeVar("T")
MOST_PROBABLE = 10
"""Top tokens of each position that a hosted model returns if monitors or agents read its certainty: monitors measure
ten (arXiv 2502.05986)."""
LOADED = "loaded"
MAX_CONTEXTS = 16  # in memory; a run that returns to older settings builds its context again
Models = BaseChatModel | Mapping[str, BaseChatModel] | None
GivenModels = Runnable[Any, Any] | Mapping[str, Runnable[Any, Any]] | None
"""Chat models, or other runnables from messages to a message."""


@dataclass(frozen=True, eq=False)
class RunContext(Generic[AnySettings]):
    """The settings, agents and prompts of one run."""

    settings: AnySettings
    agents: Mapping[str, Agent]
    """The agents in the settings, by name."""
    prompts: Prompts
    """The prompts of agents whose model has no pack of its own."""
    answers: tuple[str, ...] = ("answer", "revise")
    """The scheme's acts that contain answers."""
    store: Unimported = None
    """The store of payloads; None is the default folder."""
    memo: dict[str, Any] = field(default_factory=dict)  # Any: values of acts
    """Values that acts read once in a run, e.g. a file that the settings name."""

    def once(self, name: str, read: Callable[[], T]) -> T:
        """Return the value of that name in `memo`, read at its first use in a run."""
        if name not in self.memo:
            self.memo[name] = read()
        value: T = self.memo[name]
        return value

    def agent(self, name: str) -> Agent:
        """Return an agent. One that is not in the settings, such as a summariser, has the first agent's model."""
        if name in self.agents:
            return self.agents[name]
        first, *others = self.agents.values()
        asked = next((each for each in (first, *others) if not each.person), first)
        return self.once(f"agent {name}", lambda: replace(asked, name=name, prompts=first.prompts))

    def seed(self, state: Discussion, agent: str, act: str, attempt: int = 0) -> int:
        """Return a call's seed (63 bits), a digest of run, question and place; no global generator is used."""
        name = json.dumps([self.settings.seed, question_id(state), *moment(state), agent, act, attempt])
        return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 1

    def message(self, state: Discussion, agent: str, act: str, text: str, **fields: Any) -> Message:  # Any: a message's
        """Return a message that no model wrote, said now: by default by a rule, as the next attempt at its act."""
        epoch, round, turn = moment(state)
        usual = {"attempt": attempt_of(state, agent, act), "epoch": epoch, "turn": turn}
        return Message(
            agent, round, act, text, **{**usual, "order": self.agent(agent).order, "source": "rule", **fields}
        )

    def final_rule(self) -> str:
        """Return the protocol's own decision rule if local models use one, otherwise majority."""
        latent = self.settings.protocol != WORDS  # text is decided by majority, without loading torch
        hears = latent and any(agent.is_hooked for agent in self.agents.values())
        return str(PROTOCOLS[self.settings.protocol].final_rule) if hears else "majority"


@dataclass(frozen=True, eq=False)
class Contexts(Generic[AnySettings]):
    """The default settings and models of a graph, which creates a context for each run."""

    kind: type[AnySettings]
    defaults: AnySettings
    models: Models = None
    store: Unimported = None
    answers: tuple[str, ...] = ("answer", "revise")
    restored: tuple[str, ...] = ()
    """The keys of the scheme's state that a reset restores."""
    state: type[Any] = Discussion
    """The scheme's state."""
    prompts: Mapping[str, Path] = field(default_factory=dict)
    """Folders of the scheme's own prompts: see `Scheme.own_prompts`."""
    acting: set[str] = field(default_factory=set)
    """The agents that act in its nodes, including those without a model of their own."""
    allowed: Allowed = field(default_factory=Allowed)
    """Names that the context and the state of a run may use."""
    _built: dict[str, RunContext[AnySettings]] = field(default_factory=dict)
    """Contexts by the settings in state and the runtime context, which were checked."""

    def __post_init__(self) -> None:
        """Refuse an invalid store, invalid models, and missing models of agents that no person plays."""
        store = self.store
        if store is not None and not all(hasattr(store, name) for name in ("put", "get", "on_missing")):
            raise UsageError(f"store is {store!r}; expected a payload store, like PayloadStore('payloads')")
        models: Any = self.models  # Any: as a user gave them
        if models is None or isinstance(models, BaseChatModel):
            return
        agents, people = self.defaults.names(), self.defaults.human
        if not isinstance(models, Mapping):
            raise UsageError(
                f"models is {models!r}; expected a chat model, or one by agent, like {{{agents[0]!r}: model}}; "
                "models by name are a setting: model=['bundled']"
            )
        for name in agents:
            if name not in models and name not in people:
                known = ", ".join(sorted(map(str, models)))
                raise UsageError(f"no model for agent {name!r}; models names only: {known}")
        for name, model in models.items():
            if name not in agents:
                raise UsageError(nearest("agent among the models:", name, agents))
            if not isinstance(model, BaseChatModel):
                raise UsageError(f"the model of agent {name!r} is {model!r}; expected a chat model")

    def settings(self) -> AnySettings:
        """Return the run's settings: the graph's, updated with those of the runtime context.

        Raises:
            UsageError: the context needs another graph than was built, or contradicts the models passed to the graph.
            RequestError: it uses a name that is neither built in nor allowed.
        """
        given, context = _runtime_context(), _context_of(self.kind)
        if isinstance(given, self.kind) and given.model_fields_set >= self.defaults.model_fields_set:
            settings = given  # it sets all that the graph's settings do, and was validated when it was made
        else:
            settings = self.kind.model_validate({**self.defaults.model_dump(), **context})
        self._check_built(settings, "the context asks")
        return self._as_spoken(settings, self.defaults.model_fields_set | set(context))

    def of(self, state: Discussion, opened: AnySettings | None = None, *, new: bool = False) -> RunContext[AnySettings]:
        """Return the run context for the settings in state. With `new`, create one that has read nothing yet.

        `opened` has these settings if the discussion was just opened with them. Without it, the settings in state come
        from a file or a client.

        Raises:
            UsageError: the settings are invalid, or the run's context asks for others.
            RequestError: the settings use a name that is neither built in nor allowed.
        """
        context = _context_of(self.kind)
        key = _key(state, context)
        run = None if new else self._built.get(key)
        if run is None:
            if opened is None:
                opened = self.kind.model_validate(settings_of(state, self.kind.model_fields))
                self._check_built(opened, "the state's settings ask")
                _check_same(opened, context)
            run = self._context(self.allowed.resolved(opened))
            while len(self._built) >= MAX_CONTEXTS:
                self._built.pop(next(iter(self._built)), None)
            self._built[key] = run
        return run

    async def ready(self, state: Discussion) -> RunContext[AnySettings]:
        """Return the context for an act. Prompts are read and models loaded off the event loop, once."""
        run = self._built.get(_key(state, _context_of(self.kind)))
        return run if run is not None and LOADED in run.memo else await off_loop(self._loaded, state)

    def _loaded(self, state: Discussion) -> RunContext[AnySettings]:
        run = self.of(state)
        for name in {*run.agents, *self.acting}:
            agent = run.agent(name)
            _ = agent.person or (agent.wording, agent.temperature)  # they load its model
        run.memo[LOADED] = True
        return run

    def check(self, state: Discussion, *, started: bool = True) -> None:
        """Refuse an invalid state. Before a discussion has `started`, refuse only values of a wrong type."""
        check_types(state, self.state)
        if started:
            check_state(state, {*self.acting, *self.of(state).settings.names()})

    def _check_built(self, settings: Settings, who: str) -> None:
        self.allowed.check(settings, self.defaults)
        for asked, built in zip(settings.topology(), self.defaults.topology(), strict=True):
            if asked != built:
                raise UsageError(
                    f"{who} for {asked}, but this graph was built with {built}; build it with those settings"
                )
        if settings.watch != self.defaults.watch:
            raise UsageError(f"{who} for other monitors than this graph was built with; build it with those monitors")
        if settings.approve and not self.defaults.approve:
            raise UsageError(f"{who} for approvals, but this graph was built without; build it with `approve`")

    def _as_spoken(self, settings: AnySettings, chosen: set[str]) -> AnySettings:
        """Return settings that agree with the models passed to the graph, which have their own protocol and options."""
        if self.models is None:
            return settings
        for name in sorted(chosen & settings.of_models()):
            raise UsageError(f"the setting {name!r} belongs to the models passed to this graph; set it on the models")
        models = self.models.values() if isinstance(self.models, Mapping) else [self.models]
        spoken = list(dict.fromkeys(model.protocol for model in models if isinstance(model, HookedChatModel)))
        if not spoken or settings.protocol in spoken:
            return settings
        if "protocol" in chosen:
            raise UsageError(
                f"the settings ask for protocol {settings.protocol!r}, but the models use {', '.join(spoken)}; "
                "create the models with that protocol"
            )
        return settings.model_copy(update={"protocol": spoken[0]})

    def _context(self, settings: AnySettings) -> RunContext[AnySettings]:
        models = {agent: self._model(settings, agent) for agent in settings.names()}
        local = {name: model for name, model in models.items() if isinstance(model, HookedChatModel)}
        for name, model in local.items():  # cipher and kv record what these can read
            hearers = tuple(other for key, other in local.items() if key != name)
            known = {"hearers": model.hearers or hearers, "store": model.store or self.store}
            models[name] = model.model_copy(update=known)
        usual, own = Prompts(settings.pack_folder(settings.prompts) if settings.prompts else None, self.prompts), {}
        if not settings.prompts:
            packs = {name: pack for name, model in models.items() if (pack := getattr(model, "pack", None))}
            read = {pack: Prompts(SHIPPED / pack, self.prompts) for pack in set(packs.values())}
            own = {name: read[pack] for name, pack in packs.items()}
        refused, people = Refused(), dict.fromkeys(settings.human, BEGINNING)
        agents = {
            name: Agent(name, settings, model, own.get(name, usual), refused, self.store, people.get(name, ""))
            for name, model in models.items()
        }
        return RunContext(settings, agents, usual, self.answers, self.store)

    def _model(self, settings: AnySettings, agent: str) -> BaseChatModel:
        """Return the model of an agent: the one passed to the graph, or one made by the settings."""
        if self.models is None or agent in settings.human:
            return made_from(settings, agent, self.store)
        if isinstance(self.models, BaseChatModel):
            return self.models
        if agent not in self.models:
            why = "which a person played when this graph was built"
            raise UsageError(f"no model for agent {agent!r}, {why}; pass one")
        return self.models[agent]


def made_from(settings: Settings, agent: str, store: Unimported = None) -> BaseChatModel:
    """Return an agent's model by the settings. A hosted one also gets its maximum length and monitors' needs."""
    if agent in settings.human:
        return Person()
    of = partial(settings.of, agent=agent)
    model = str(of("model"))
    if is_hosted(model):
        top = MOST_PROBABLE if settings.watch or settings.reads_certainty else None
        made = hosted(model, agent, settings.max_tokens, top, settings.timeout)
        return check_switch(made, settings.thinking, model)
    return HookedChatModel(
        model=model,
        protocol=settings.protocol,
        options=settings.options(agent),
        max_tokens=settings.max_tokens,
        timeout=settings.timeout,
        dtype=of("dtype"),
        weights=of("weights"),
        device=of("device"),
        memory=of("memory"),
        store=store,
        **settings.model_dump(include={*OF_SAMPLING, "thinking", "share_thoughts", "exact"}),
        thinking_markers=settings.thinking_markers,
        brief=settings.brief,
    )


def _key(state: Discussion, context: Mapping[str, AnyState]) -> str:
    return f"{state.get('settings')} {context}"  # `repr` shows types, and is faster than JSON


def _runtime_context() -> AnyState:
    """Return the runtime context as the caller gave it, or None if there is none."""
    try:
        return getattr(get_runtime(), "context", None)
    except RuntimeError:  # no graph is running
        return None


def _context_of(kind: type[Settings]) -> dict[str, AnyState]:
    """Return the settings in the context of this run. Inside another graph, return those that both graphs have."""
    context = _runtime_context()
    if isinstance(context, kind):
        return context.model_dump(exclude_unset=True)
    if context is None or (is_inside() and not isinstance(context, Mapping)):
        return {}
    if not isinstance(context, Mapping):
        raise UsageError(f"the context is {type(context).__name__}; this graph expects settings of {kind.__name__}")
    known = kind.model_fields
    unknown = [name for name in context if name not in known]
    if unknown and not is_inside():
        raise UsageError(nearest("setting in the context:", unknown[0], known))
    return {name: value for name, value in context.items() if name in known}


def _check_same(settings: AnySettings, context: Mapping[str, AnyState]) -> None:
    """Refuse a context with other settings than the discussion was opened with."""
    wanted = type(settings).model_validate({**settings.model_dump(), **context})  # values as settings have them
    pairs = [(name, getattr(wanted, name), getattr(settings, name)) for name in context]
    differences = [f"{name} is {new!r}, and was {old!r}" for name, new, old in pairs if new != old]
    if differences:
        raise UsageError(
            f"the context asks for other settings than this discussion was opened with: {'; '.join(differences)}; "
            "resume it with its own, or start a new discussion"
        )


class RunnableModel(BaseChatModel):
    """Any runnable from messages to a message as a chat model, such as a compiled agent with tools of its own.

    It hears and speaks words, like a hosted model; it has its own temperature and other settings of models. A graph
    takes and returns `messages`.
    """

    # Any: pydantic would validate a Runnable's own type parameters
    runnable: Any
    cache: BaseCache | bool | None = Field(
        default=False, exclude=True
    )  # LangChain's key would not tell runnables apart
    _is_async: bool = PrivateAttr(default=False)

    @property
    def _llm_type(self) -> str:
        return "runnable"

    def _generate(self, messages: list[BaseMessage], *args: Untyped, **kwargs: Untyped) -> ChatResult:
        if not self._is_async:
            try:
                return self._result(self.runnable.invoke(self._input(messages)))
            except (NotImplementedError, TypeError) as error:
                if "sync" not in str(error):  # as libraries say it, e.g. of a tool of an MCP server
                    raise
                self._is_async = True
        return wait(self._agenerate(messages))

    async def _agenerate(self, messages: list[BaseMessage], *args: Untyped, **kwargs: Untyped) -> ChatResult:
        return self._result(await self.runnable.ainvoke(self._input(messages)))

    def _input(self, messages: list[BaseMessage]) -> Untyped:
        return {"messages": messages} if isinstance(self.runnable, Pregel) else messages

    def _result(self, result: Any) -> ChatResult:  # Any: what the runnable returned
        last = (result.get("messages") or [None])[-1] if isinstance(result, Mapping) else result
        if not isinstance(last, BaseMessage | str):
            raise UsageError(f"a runnable agent returned {shortened(repr(result))}; expected a message, or `messages`")
        said = last if isinstance(last, AIMessage) else AIMessage(last if isinstance(last, str) else str(last.text))
        return convert.result(said)


def as_model(model: Any) -> Any:  # Any: as a user gave it
    """Return a runnable as a chat model, a mapping with its runnables so, and anything else as it is."""
    if isinstance(model, Mapping):
        return {name: as_model(each) for name, each in model.items()}
    runs = isinstance(model, Runnable) and not isinstance(model, BaseChatModel)
    return RunnableModel(runnable=model) if runs else model
