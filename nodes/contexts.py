"""Contexts: from a graph's defaults and the context that LangGraph passes to a run, the run's own `RunContext`.

State has the settings as plain JSON, and never contains models. A graph may receive model objects
(any LangChain chat model, one for all agents or by name); otherwise they are created from the settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.runnables import Runnable
from langgraph.runtime import get_runtime

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.core.any_types import AnyState, Unimported
from sottovoce.core.errors import UsageError, choose, nearest
from sottovoce.core.trust import Allowed
from sottovoce.nodes.context import RunContext, made_from
from sottovoce.nodes.settings import AnySettings, Settings
from sottovoce.nodes.state import Discussion
from sottovoce.nodes.state_validation import check_state, check_types, settings_of
from sottovoce.nodes.streams import is_inside
from sottovoce.prompts import SHIPPED
from sottovoce.prompts.render import Prompts

MAX_CONTEXTS = 16  # in memory; a run that returns to older settings builds its context again
Models = BaseChatModel | Mapping[str, BaseChatModel] | None
GivenModels = Runnable[Any, Any] | Mapping[str, Runnable[Any, Any]] | None
"""Chat models, or other runnables from messages to a message."""


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
                raise UsageError(choose("agent among the models:", name, agents))
            if not isinstance(model, BaseChatModel):
                raise UsageError(f"the model of agent {name!r} is {model!r}; expected a chat model")

    def settings(self) -> AnySettings:
        """Return the run's settings: the graph's, updated with those of the runtime context.

        Raises:
            UsageError: the context needs another graph than was built, or contradicts the models passed to the graph.
            RequestError: it uses a name that is neither built in nor allowed.
        """
        context = _context_of(self.kind)
        settings = self.kind.model_validate({**self.defaults.model_dump(), **context})
        self._check_built(settings, "the context asks")
        return self._as_spoken(settings, self.defaults.model_fields_set | set(context))

    def of(self, state: Discussion) -> RunContext[AnySettings]:
        """Return the context of the settings in state.

        Raises:
            UsageError: the settings are invalid, or the run's context asks for others.
            RequestError: the settings use a name that is neither built in nor allowed.
        """
        context = _context_of(self.kind)
        key = f"{state.get('settings')} {context}"  # `repr` shows types, and is faster than JSON
        run = self._built.get(key)
        if run is None:
            settings = settings_of(state, self.kind.model_fields)
            parsed = self.kind.model_validate(settings)
            self._check_built(parsed, "the state's settings ask")
            _check_same(parsed, context)
            run = self._context(self.allowed.resolved(parsed))
            while len(self._built) >= MAX_CONTEXTS:
                self._built.pop(next(iter(self._built)), None)
            self._built[key] = run
        return run

    def check(self, state: Discussion, *, started: bool = True) -> None:
        """Refuse an invalid state; before a discussion has `started`, only values of a wrong type."""
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
            raise UsageError(f"{who} for other monitors than this graph was built with; build it with those")
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
        made: dict[str, BaseChatModel] = {}
        for agent in settings.names():
            if self.models is None or agent in settings.human:
                made[agent] = made_from(settings, agent, self.store)
            elif isinstance(self.models, BaseChatModel):
                made[agent] = self.models
            elif agent in self.models:
                made[agent] = self.models[agent]
            else:
                why = "which a person played when this graph was built"
                raise UsageError(f"no model for agent {agent!r}, {why}; pass one")
        local = {name: model for name, model in made.items() if isinstance(model, HookedChatModel)}
        models = dict(made)
        for name, model in local.items():  # cipher averages over the tables of its hearers too
            hearers = tuple(other for key, other in local.items() if key != name and other is not model)
            known = {"hearers": model.hearers or hearers, "store": model.store or self.store}
            models[name] = model.model_copy(update=known)
        prompts, own = Prompts(settings.pack_folder(settings.prompts) if settings.prompts else None, self.prompts), {}
        if not settings.prompts:
            packs = {name: pack for name, model in models.items() if (pack := getattr(model, "pack", None))}
            read = {pack: Prompts(SHIPPED / pack, self.prompts) for pack in set(packs.values())}
            own = {name: read[pack] for name, pack in packs.items()}
        return RunContext(settings, models, prompts, self.answers, self.store, own)


def _context_of(kind: type[Settings]) -> dict[str, AnyState]:
    """Return the settings in the context of this run; inside another graph, those that both graphs have."""
    try:
        context: AnyState = getattr(get_runtime(), "context", None)
    except RuntimeError:  # no graph is running
        context = None
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
    """Refuse a context with settings that differ from those that the discussion was opened with."""
    if all(getattr(settings, name) == value for name, value in context.items()):
        return
    wanted = type(settings).model_validate({**settings.model_dump(), **context})  # values as settings have them
    pairs = [(name, getattr(wanted, name), getattr(settings, name)) for name in context]
    differences = [f"{name} is {new!r}, and was {old!r}" for name, new, old in pairs if new != old]
    if differences:
        raise UsageError(
            f"the context asks for other settings than this discussion was opened with: {'; '.join(differences)}; "
            "resume it with its own, or start a new discussion"
        )
