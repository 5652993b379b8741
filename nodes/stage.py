"""Who plays: the models, prompts and settings behind a run's state, built once per run and kept.

State holds the settings as plain JSON; models never enter it. A factory may be given model objects
(any LangChain chat model, one for all agents or by name); otherwise they are made from the settings.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langgraph.runtime import get_runtime

from sottovoce.agents.ask import Ask
from sottovoce.agents.hooked import WORDS, HookedChatModel
from sottovoce.channels.message import Turn
from sottovoce.errors import ProtocolError, UsageError, choose
from sottovoce.nodes.settings import AnySettings, Settings, validated
from sottovoce.nodes.state import Discussion, Question, question_id
from sottovoce.nodes.views import View
from sottovoce.prompts.render import Prompts

Models = BaseChatModel | Mapping[str, BaseChatModel] | None
S = TypeVar("S", bound=Settings)


@dataclass(frozen=True, eq=False)
class Stage(Generic[AnySettings]):
    """One run's settings with the models and prompts they name."""

    settings: AnySettings
    models: Mapping[str, BaseChatModel]
    prompts: Prompts

    def view(self, question: Question, agent: str, documents_of: str | None) -> View:
        """How `agent` sees the question, with the documents of `documents_of` (None: everybody's)."""
        systems = self.settings.each("system")
        system = systems[self.settings.names().index(agent)] if systems else ""
        return View(self.prompts, question, documents_of, system)

    def ask(self, state: Discussion, agent: str, turns: list[Turn], act: str, **more: Any) -> Ask:  # Any: fields of Ask
        """A question to an agent's model, with the seed and temperature of this place in the run."""
        round = max(state.get("round", 0), 0)
        seed = derived_seed(self.settings.seed, question_id(state), round, agent, act)
        model = self.models[agent]
        return Ask(agent, model, tuple(turns), act, round, seed, self.temperature(agent), **more)

    def temperature(self, agent: str) -> float | None:
        """The agent's temperature: as set, or as the protocol spreads it; None leaves a hosted model its own."""
        names, values = self.settings.names(), self.settings.each("temperature")
        i, model = names.index(agent), self.models[agent]
        if values:
            return float(values[i])
        if not isinstance(model, HookedChatModel):
            return None
        if model.temperature is not None:
            return model.temperature
        return model.channel.temperature(i, len(names), model.mind.sampling.temperature)

    def final_rule(self) -> str:
        """The protocol's own way to decide."""
        rules = [model.channel.final_rule for model in self.models.values() if isinstance(model, HookedChatModel)]
        return rules[0] if rules else "majority"

    def check_edges(self) -> list[str]:
        """Check that every agent can hear every other; returns notes on edges that go in words or outside a paper.

        Raises:
            ProtocolError: an edge cannot be carried and the settings do not allow words.
        """
        notes = []
        for speaker, spoken in self.models.items():
            for hearer, heard in self.models.items():
                if speaker != hearer and (note := self._edge(spoken, heard)):
                    notes.append(f"{hearer} hears {speaker} {note}")
        return notes

    def _edge(self, speaker: BaseChatModel, hearer: BaseChatModel) -> str | None:
        """What a reader must know of an edge; None where it carries what the speaker's protocol says."""
        if not isinstance(speaker, HookedChatModel) or not isinstance(hearer, HookedChatModel):
            latent = [
                each for each in (speaker, hearer) if isinstance(each, HookedChatModel) and each.protocol != WORDS
            ]
            return "in words: one of them is a hosted model" if latent else None
        if speaker.protocol != hearer.protocol:
            return f"in words: they speak {speaker.protocol} and {hearer.protocol}"
        try:
            return speaker.channel.check(speaker.mind, hearer.mind)
        except ProtocolError as problem:
            if self.settings.fallback == "error":
                raise
            return f"in words: {problem}"


@dataclass(frozen=True, eq=False)
class Company(Generic[AnySettings]):
    """What a graph's factory knows: default settings and given models. Stages are made per run."""

    kind: type[AnySettings]
    defaults: AnySettings
    models: Models = None
    store: Any = None  # Any: a PayloadStore; naming its type would import torch
    _stages: dict[str, Stage[AnySettings]] = field(default_factory=dict)

    def settings(self) -> AnySettings:
        """The run's settings: those of the runtime context over the factory's.

        Raises:
            UsageError: the context asks for another graph than was built, or the given models contradict it.
        """
        context: Any = get_runtime().context  # Any: a dict, the settings, or None, as the run was started
        if isinstance(context, Settings):
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
        if key not in self._stages:
            settings = validated(self.kind, state["settings"])
            prompts = Prompts(Path(settings.prompts) if settings.prompts else None)
            self._stages[key] = Stage(settings, self._cast(settings), prompts)
        return self._stages[key]

    def _as_spoken(self, settings: AnySettings, chosen: set[str]) -> AnySettings:
        """Given models speak as they were made: a run must not bear the name of another protocol."""
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
            for name in names:
                if name not in self.models:
                    raise UsageError(choose("agent without a model:", name, list(self.models)))
            made = {name: self.models[name] for name in names}
        return {name: _introduced(name, model, made) for name, model in made.items()}


def of_config(kind: type[AnySettings], config: RunnableConfig) -> AnySettings:
    """An assistant's settings: what of its configuration the scheme knows (the server adds keys of its own)."""
    given = config.get("configurable") or {}
    return validated(kind, {name: value for name, value in given.items() if name in kind.model_fields})


def derived_seed(run: int, question: str, round: int, agent: str, act: str, attempt: int = 0) -> int:
    """A seed (63 bits) from everything that names a call; never from a global generator."""
    name = json.dumps([run, question, round, agent, act, attempt])
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 1


def _made(settings: Settings, store: Any) -> dict[str, BaseChatModel]:  # Any: see Company
    options = settings.protocol_options()
    return {
        name: HookedChatModel(
            model=model,
            protocol=settings.protocol,
            options=options,
            max_tokens=settings.max_tokens,
            dtype=settings.dtype,
            device=settings.device,
            store=store,
        )
        for name, model in zip(settings.names(), settings.each("model"), strict=True)
    }


def _introduced(name: str, model: BaseChatModel, everyone: Mapping[str, BaseChatModel]) -> BaseChatModel:
    """A hooked model knows who will hear it, so that cipher can average over their tables too."""
    if not isinstance(model, HookedChatModel) or model.hearers:
        return model
    hearers = tuple(other for other_name, other in everyone.items() if other_name != name and other is not model)
    return model.model_copy(update={"hearers": tuple(each for each in hearers if isinstance(each, HookedChatModel))})
