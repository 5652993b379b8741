"""What a graph's factory knows: its settings and the models it was given. It makes a stage for each run.

State holds the settings as plain JSON; models never enter it. A factory may be given model objects
(any LangChain chat model, one for all agents or by name); otherwise they are made from the settings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Generic

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langgraph.runtime import get_runtime

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.agents.hosted import hosted, is_hosted
from sottovoce.errors import UsageError
from sottovoce.nodes.samples import rendered
from sottovoce.nodes.settings import OF_LOADING, OF_SAMPLING, AnySettings, Settings, validated
from sottovoce.nodes.stage import Stage
from sottovoce.nodes.state import Discussion
from sottovoce.prompts.render import Prompts

KEPT = 16  # stages: a run that comes back to older settings builds its own anew
Models = BaseChatModel | Mapping[str, BaseChatModel] | None


@dataclass(frozen=True, eq=False)
class Company(Generic[AnySettings]):
    """Default settings and given models."""

    kind: type[AnySettings]
    defaults: AnySettings
    models: Models = None
    store: Any = None  # Any: a PayloadStore; naming its type would import torch
    _stages: dict[str, Stage[AnySettings]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a mapping of models that leaves somebody out, while the graph is made.

        Raises:
            UsageError: names who has no model.
        """
        for name in self.defaults.names() if isinstance(self.models, Mapping) else ():
            assert isinstance(self.models, Mapping), "only of a mapping a name can be missing"
            if name not in self.models:
                known = ", ".join(sorted(self.models))
                raise UsageError(f"no model for agent {name!r}; models names only: {known}")

    def settings(self) -> AnySettings:
        """The run's settings: those of the runtime context over the factory's.

        Raises:
            UsageError: the context asks for another graph than was built, or the given models contradict it.
        """
        context: Any = get_runtime().context  # Any: a dict, the settings, or None, as the run was started
        if isinstance(context, Settings):
            if not isinstance(context, self.kind):
                found, expected = type(context).__name__, self.kind.__name__
                raise UsageError(f"the context holds settings of {found}; this graph takes those of {expected}")
            context = context.model_dump(exclude_unset=True)
        settings = validated(self.kind, {**self.defaults.model_dump(), **(context or {})})
        for asked, built in zip(settings.layout(), self.defaults.layout(), strict=True):
            if asked != built:
                raise UsageError(
                    f"the context asks for {asked}, but this graph was built with {built}; build it with those settings"
                )
        return self._as_spoken(settings, self.defaults.model_fields_set | set(context or ()))

    def stage(self, state: Discussion) -> Stage[AnySettings]:
        """The stage of the settings in state."""
        key = json.dumps(state["settings"], sort_keys=True)
        stage = self._stages.get(key)
        if stage is None:
            settings = validated(self.kind, state["settings"])
            prompts = Prompts(Path(settings.prompts) if settings.prompts else None)
            while len(self._stages) >= KEPT:
                self._stages.pop(next(iter(self._stages)), None)
            stage = self._stages[key] = Stage(settings, self._cast(settings), prompts, rendered(settings, prompts))
        return stage

    def _as_spoken(self, settings: AnySettings, chosen: set[str]) -> AnySettings:
        """Given models speak as they were made: a run must not bear settings that they never heard of."""
        if self.models is None:
            return settings
        for name in sorted(chosen & settings.of_models()):
            raise UsageError(f"the setting {name!r} is the models' own, and this graph was given models; set it there")
        given = self.models.values() if isinstance(self.models, Mapping) else [self.models]
        spoken = list(dict.fromkeys(model.protocol for model in given if isinstance(model, HookedChatModel)))
        if not spoken or settings.protocol in spoken:
            return settings
        if "protocol" in chosen:
            raise UsageError(
                f"the settings ask for protocol {settings.protocol!r}, but the given models speak {', '.join(spoken)}; "
                "make the models with that protocol"
            )
        return settings.model_copy(update={"protocol": spoken[0]})

    def _cast(self, settings: Settings) -> dict[str, BaseChatModel]:
        names = settings.names()
        if self.models is None:
            made = _made(settings, self.store)
        elif isinstance(self.models, BaseChatModel):
            made = dict.fromkeys(names, self.models)
        else:
            made = {name: self.models[name] for name in names}
        return {name: _introduced(name, _stored(model, self.store), made) for name, model in made.items()}


def of_config(kind: type[AnySettings], config: RunnableConfig) -> AnySettings:
    """An assistant's settings: what of its configuration the scheme knows (the server adds keys of its own)."""
    given = config.get("configurable") or {}
    return validated(kind, {name: value for name, value in given.items() if name in kind.model_fields})


def _made(settings: Settings, store: Any) -> dict[str, BaseChatModel]:  # Any: see Company
    """Models by name; a hosted one is told of the settings its temperature and its longest reply."""
    local = partial(
        HookedChatModel,
        protocol=settings.protocol,
        options=settings.protocol_options(),
        max_tokens=settings.max_tokens,
        **settings.model_dump(include={*OF_SAMPLING, *OF_LOADING}),
        store=store,
    )
    return {
        name: hosted(model, name, settings.max_tokens) if is_hosted(model) else local(model=model)
        for name, model in zip(settings.names(), settings.each("model"), strict=True)
    }


def _stored(model: BaseChatModel, store: Any) -> BaseChatModel:  # Any: see Company
    """A hooked model that was given without a store keeps its payloads where the run does."""
    if store is None or not isinstance(model, HookedChatModel) or model.store is not None:
        return model
    return model.model_copy(update={"store": store})


def _introduced(name: str, model: BaseChatModel, everyone: Mapping[str, BaseChatModel]) -> BaseChatModel:
    """A hooked model knows who will hear it, so that cipher can average over their tables too."""
    if not isinstance(model, HookedChatModel) or model.hearers:
        return model
    hearers = tuple(other for other_name, other in everyone.items() if other_name != name and other is not model)
    return model.model_copy(update={"hearers": tuple(each for each in hearers if isinstance(each, HookedChatModel))})
