"""The run context: the settings, models and prompts of one run, for its acts.

State has the settings as plain JSON, and never contains models. A graph may receive model objects
(any LangChain chat model, one for all agents or by name); otherwise they are created from the settings.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

from langchain_core.language_models.chat_models import BaseChatModel

from sottovoce.agents.ask import is_hooked
from sottovoce.agents.hooked import WORDS, HookedChatModel
from sottovoce.agents.hosted import hosted, is_hosted
from sottovoce.agents.person import Person
from sottovoce.channels import PROTOCOLS
from sottovoce.core.errors import UsageError
from sottovoce.core.response_format import Form
from sottovoce.core.trust import Allowed
from sottovoce.nodes.inputs import Models, check_models, check_same, check_store, context_of
from sottovoce.nodes.prompt_builder import PromptBuilder
from sottovoce.nodes.question import Question, question_id
from sottovoce.nodes.state import Discussion, moment
from sottovoce.nodes.state_validation import check_state, check_types, check_whole, settings_of
from sottovoce.prompts.packs import SHIPPED
from sottovoce.prompts.render import Prompts
from sottovoce.settings import OF_SAMPLING, Answers, AnySettings, Settings

if TYPE_CHECKING:
    from sottovoce.models import Base

MOST_PROBABLE = 10
"""Top tokens of each position that a watched hosted model returns: monitors measure ten (arXiv 2502.05986)."""
ANSWER_LINE = "shared/answer_line.md"
MAX_CONTEXTS = 16  # in memory; a run that returns to older settings builds its context again


@dataclass(frozen=True, eq=False)
class RunContext(Generic[AnySettings]):
    """The settings, models and prompts of one run."""

    settings: AnySettings
    models: Mapping[str, BaseChatModel]
    prompts: Prompts
    """The prompts of agents whose model has no pack of its own."""
    answers: tuple[str, ...] = ("answer", "revise")
    """The scheme's acts that contain answers."""
    restored: tuple[str, ...] = ()
    """The keys of the scheme's state that a reset restores."""
    store: Any = None  # Any: a PayloadStore; naming its type would import torch
    """The store of payloads; None is the default folder."""
    packs: Mapping[str, Prompts] = field(default_factory=dict)
    """Prompts of the agents whose model has a pack of its own: see `packs.TRAINED`."""
    memo: dict[str, Any] = field(default_factory=dict)  # Any: values of acts
    """Values that acts read once in a run, e.g. a file that the settings name."""

    def prompt_builder(self, question: Question, agent: str, owner: str | None = "") -> PromptBuilder:
        """Return a builder of `agent`'s prompts with the documents of `owner`: by default its own; None means all."""
        system = self.settings.of("system", agent) or "" if agent in self.settings.names() else ""
        documents, components = agent if owner == "" else owner, self.settings.components()
        return PromptBuilder(
            self.prompts_of(agent), question, documents, system, agent, components, self.wording(agent)
        )

    def prompts_of(self, agent: str) -> Prompts:
        """Return an agent's prompts; an agent without a model of its own uses the first agent's."""
        owner = agent if agent in self.models else self.settings.names()[0]
        return self.packs.get(owner, self.prompts)

    def wording(self, agent: str) -> Answers:
        """Return the wording of requests for answers, by the settings or by the size of the agent's model."""
        return wording(self.settings, self.model(agent))

    def order(self, agent: str) -> int:
        """Return an agent's place in the settings; agents that are not in them come last."""
        names = self.settings.names()
        return names.index(agent) if agent in names else len(names)

    def model(self, agent: str) -> BaseChatModel:
        """Return an agent's model; without one of its own, that of the first agent that is not a person."""
        names = self.settings.names()
        others = (name for name in names if name not in self.settings.human)
        return self.models.get(agent) or self.models[next(others, names[0])]

    def store_of(self, agent: str) -> Any:  # Any: see `store`
        """Return the store of the payloads of an agent's replies."""
        return getattr(self.model(agent), "store", None) or self.store

    def seed(self, state: Discussion, agent: str, act: str, attempt: int = 0) -> int:
        """Return a call's seed (63 bits), a digest of run, question and place; no global generator is used."""
        name = json.dumps([self.settings.seed, question_id(state), *moment(state), agent, act, attempt])
        return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 1

    def temperature(self, agent: str, *, words: bool = False) -> float | None:
        """Return the agent's temperature: as set, else by scheme and protocol; None leaves it to a hosted model.

        `words`: for replies in text, whatever its protocol.
        """
        settings, model, default = self.settings, self.model(agent), self.settings.default_temperature
        agent = agent if agent in settings.names() else settings.names()[0]
        if settings.temperature:
            return float(settings.of("temperature", agent))
        if not isinstance(model, HookedChatModel):
            return default
        if model.temperature is not None:
            return model.temperature
        if base := self.base(agent):
            of_words = model.channel.base_of_words(model.loaded).value if default is None else default
            default = of_words if words else base.value
        assert default is not None, "there is a base, or the scheme has a temperature"
        speakers = settings.speakers()
        spread = self._spreads(agent)
        place = speakers.index(agent) if agent in speakers else 0
        return model.channel.temperature(place, len(speakers), default) if spread else default

    def base(self, agent: str) -> Base | None:
        """Return the base of a local model's temperature; None if it was set, or the scheme has its own."""
        settings, model = self.settings, self.model(agent)
        if settings.temperature or not isinstance(model, HookedChatModel) or model.temperature is not None:
            return None
        # At 0 a mean embedding is that of one token, and such a protocol equals text.
        averages = self._spreads(agent) and model.channel.averages and settings.spreads_temperature
        free = settings.default_temperature is None or averages
        return model.channel.base(model.loaded) if free else None

    def _spreads(self, agent: str) -> bool:
        """Return True if the protocol may vary the agent's temperature: agents discuss, and this one is heard."""
        settings = self.settings
        heard = agent in settings.speakers() or any(agent == speaker for speaker, _ in settings.edges())
        return settings.discusses and heard

    def constraint(self, form: Form | None) -> Form | None:
        """Return the format that constrains a reply's decoding, by the run's settings; None leaves it free."""
        guide = self.settings.guide
        if form is None or guide == "off" or self.settings.compat == "reference":
            return None
        return None if form.optional and guide == "auto" else form

    def final_rule(self) -> str:
        """Return the protocol's own decision rule, if local models use one; otherwise majority."""
        latent = self.settings.protocol != WORDS  # text is decided by majority, without loading torch
        hears = latent and any(map(is_hooked, self.models.values()))
        return str(PROTOCOLS[self.settings.protocol].final_rule) if hears else "majority"


@dataclass(frozen=True, eq=False)
class Contexts(Generic[AnySettings]):
    """The default settings and models of a graph, which creates a context for each run."""

    kind: type[AnySettings]
    defaults: AnySettings
    models: Models = None
    store: Any = None  # Any: a PayloadStore; naming its type would import torch
    answers: tuple[str, ...] = ("answer", "revise")
    restored: tuple[str, ...] = ()
    state: type[Any] = Discussion
    """The scheme's state."""
    prompts: Mapping[str, Path] = field(default_factory=dict)
    """Folders of the scheme's own prompts: see `Scheme.own_prompts`."""
    acting: set[str] = field(default_factory=set)
    """The agents that act in its nodes, including those without a model of their own."""
    allowed: Allowed = field(default_factory=Allowed)
    """Names that the context and the state of a run may use."""
    _built: dict[str, RunContext[AnySettings]] = field(default_factory=dict)
    """Contexts by the settings in state (JSON text) and the runtime context, which were checked."""

    def __post_init__(self) -> None:
        """Refuse invalid models and stores when the graph is created.

        Raises:
            UsageError: names the value that was found, or the agent without a model.
        """
        check_store(self.store)
        check_models(self.models, self.defaults.names(), self.defaults.human)

    def settings(self) -> AnySettings:
        """Return the run's settings: the graph's, updated with those of the runtime context.

        Raises:
            UsageError: the context needs another graph than was built, or contradicts the models passed to the graph.
            RequestError: it uses a name that is neither built in nor allowed.
        """
        context = context_of(self.kind)
        settings = self.kind.model_validate({**self.defaults.model_dump(), **context})
        self._check_built(settings, "the context asks")
        return self._as_spoken(settings, self.defaults.model_fields_set | set(context))

    def of(self, state: Discussion) -> RunContext[AnySettings]:
        """Return the context of the settings in state.

        Raises:
            UsageError: the settings are invalid, or the run's context asks for others.
            RequestError: the settings use a name that is neither built in nor allowed.
        """
        settings, text = settings_of(state)
        context = context_of(self.kind)
        key = f"{text} {context}"
        run = self._built.get(key)
        if run is None:
            check_whole(settings, self.kind.model_fields)
            parsed = self.kind.model_validate(settings)
            self._check_built(parsed, "the state's settings ask")
            check_same(parsed, context)
            run = self._context(self.allowed.resolved(parsed))
            while len(self._built) >= MAX_CONTEXTS:
                self._built.pop(next(iter(self._built)), None)
            self._built[key] = run
        return run

    def check(self, state: Discussion, *, started: bool = True) -> None:
        """Refuse an invalid state; before a discussion has `started`, only values of a wrong type.

        Raises:
            UsageError: its settings or another value is invalid.
            RequestError: the settings use a name that is neither built in nor allowed.
        """
        check_types(state, self.state)
        if started:
            check_state(state, {*self.acting, *self.of(state).settings.names()})

    def _context(self, settings: AnySettings) -> RunContext[AnySettings]:
        prompts = Prompts(settings.pack_folder(settings.prompts) if settings.prompts else None, self.prompts)
        models = self._models(settings)
        own = {} if settings.prompts else _own_prompts(models, self.prompts)
        return RunContext(settings, models, prompts, self.answers, self.restored, self.store, own)

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
        given = self.models if isinstance(self.models, Mapping) else {"": self.models}
        spoken = list(dict.fromkeys(model.protocol for model in _local(given)))
        if not spoken or settings.protocol in spoken:
            return settings
        if "protocol" in chosen:
            raise UsageError(
                f"the settings ask for protocol {settings.protocol!r}, but the models use {', '.join(spoken)}; "
                "create the models with that protocol"
            )
        return settings.model_copy(update={"protocol": spoken[0]})

    def _models(self, settings: Settings) -> dict[str, BaseChatModel]:
        made = {name: self._model(settings, name) for name in settings.names()}
        return {name: _introduced(name, model, made, self.store) for name, model in made.items()}

    def _model(self, settings: Settings, agent: str) -> BaseChatModel:
        if self.models is None or agent in settings.human:
            return made_from(settings, agent, self.store)
        if isinstance(self.models, BaseChatModel):
            return self.models
        if agent not in self.models:
            raise UsageError(f"no model for agent {agent!r}, which a person played when this graph was built; pass one")
        return self.models[agent]


def made_from(settings: Settings, agent: str, store: Any = None) -> BaseChatModel:  # Any: see Contexts
    """Return an agent's model by the settings; a hosted one also gets its maximum length and monitors' needs."""
    if agent in settings.human:
        return Person()
    of = partial(settings.of, agent=agent)
    model = str(of("model"))
    if is_hosted(model):
        top = MOST_PROBABLE if settings.watch else None
        return hosted(model, agent, settings.max_tokens, top, settings.timeout)
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
        **settings.model_dump(include={*OF_SAMPLING, "thinking", "exact"}),
    )


def pack_of(model: BaseChatModel) -> str | None:
    """Return the name of a model's own prompt pack; None for most models."""
    return getattr(model, "pack", None)


def wording(settings: Settings, model: BaseChatModel) -> Answers:
    """Return the wording of requests for answers; a local model is loaded to know its size.

    A prompt pack in the settings with its own wording of the marked line uses it for every model.
    """
    if settings.answers != "auto":
        return settings.answers
    marks = settings.prompts and (settings.pack_folder(settings.prompts) / ANSWER_LINE).exists()
    found: Answers = "short" if marks else getattr(model, "wording", "short")
    return found


def _own_prompts(models: Mapping[str, BaseChatModel], own: Mapping[str, Path]) -> dict[str, Prompts]:
    packs = {name: pack for name, model in models.items() if (pack := pack_of(model))}
    read = {pack: Prompts(SHIPPED / pack, own) for pack in set(packs.values())}
    return {name: read[pack] for name, pack in packs.items()}


def _local(models: Mapping[str, BaseChatModel]) -> list[HookedChatModel]:
    return [model for model in models.values() if isinstance(model, HookedChatModel)]


def _introduced(name: str, model: BaseChatModel, everyone: Mapping[str, BaseChatModel], store: Any) -> BaseChatModel:
    """Return a hooked model that knows its hearers (cipher averages over their tables too) and the run's store.

    A model that has hearers or a store keeps its own.
    """
    if not isinstance(model, HookedChatModel):
        return model
    others = {other_name: other for other_name, other in everyone.items() if other_name != name and other is not model}
    known = {"hearers": model.hearers or tuple(_local(others)), "store": model.store or store}
    return model.model_copy(update=known)
