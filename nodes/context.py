"""The run context: one run as its acts see it, with the settings, models and prompts that were chosen for it.

State holds the settings as plain JSON; models never enter it. A graph may be given model objects
(any LangChain chat model, one for all agents or by name); otherwise they are made from the settings.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from langchain_core.language_models.chat_models import BaseChatModel

from sottovoce.agents.ask import is_hooked
from sottovoce.agents.hooked import WORDS, HookedChatModel
from sottovoce.agents.hosted import hosted, is_hosted
from sottovoce.agents.person import Person
from sottovoce.channels.registry import PROTOCOLS
from sottovoce.errors import UsageError
from sottovoce.form import Form
from sottovoce.nodes.edits import check_state, check_whole, kept_settings
from sottovoce.nodes.given import Models, check_models, check_same, check_store, context_of
from sottovoce.nodes.question import Question, question_id
from sottovoce.nodes.settings import OF_SAMPLING, Answers, AnySettings, Settings
from sottovoce.nodes.state import Discussion, moment
from sottovoce.nodes.views import View
from sottovoce.prompts.packs import SHIPPED
from sottovoce.prompts.render import Prompts

if TYPE_CHECKING:
    from sottovoce.models import Base

MOST_PROBABLE = 10
"""Tokens of each position that a watched hosted model is asked for: as monitors measure (arXiv 2502.05986)."""
ANSWER_LINE = "shared/answer_line.md"
KEPT = 16  # contexts: a run that comes back to older settings builds its own anew


@dataclass(frozen=True, eq=False)
class RunContext(Generic[AnySettings]):
    """One run."""

    settings: AnySettings
    models: Mapping[str, BaseChatModel]
    prompts: Prompts
    """Those of agents whose model has no pack of its own."""
    answers: tuple[str, ...] = ("answer", "revise")
    """The scheme's acts that hold answers."""
    restored: tuple[str, ...] = ()
    """The keys of the scheme's state that a reset restores."""
    store: Any = None  # Any: a PayloadStore; naming its type would import torch
    """Where payloads go; None is the default folder."""
    packs: Mapping[str, Prompts] = field(default_factory=dict)
    """Prompts of the agents whose model has a pack of its own: see `packs.TRAINED`."""
    memo: dict[str, Any] = field(default_factory=dict)  # Any: whatever an act keeps
    """What acts read once for the run, e.g. a file that the settings name."""

    def view(self, question: Question, agent: str, owner: str | None = "") -> View:
        """How `agent` sees the question, with the documents of `owner`: its own unless given, None is everybody's."""
        system = self.settings.of("system", agent) or "" if agent in self.settings.names() else ""
        documents, components = agent if owner == "" else owner, self.settings.components()
        return View(self.prompts_of(agent), question, documents, system, agent, components, self.wording(agent))

    def prompts_of(self, agent: str) -> Prompts:
        """Return the prompts that an agent is asked with; one without a model of its own shares the first agent's."""
        owner = agent if agent in self.models else self.settings.names()[0]
        return self.packs.get(owner, self.prompts)

    def wording(self, agent: str) -> Answers:
        """Return how an agent is asked for answers, by the settings or by its model's size."""
        return wording(self.settings, self.model(agent))

    def order(self, agent: str) -> int:
        """An agent's place in the settings; who is not in them stands after all who are."""
        names = self.settings.names()
        return names.index(agent) if agent in names else len(names)

    def model(self, agent: str) -> BaseChatModel:
        """The model that an agent thinks with; who has none of its own takes the first agent's that is no person."""
        names = self.settings.names()
        others = (name for name in names if name not in self.settings.human)
        return self.models.get(agent) or self.models[next(others, names[0])]

    def store_of(self, agent: str) -> Any:  # Any: see `store`
        """Where the payloads of an agent's replies are."""
        return getattr(self.model(agent), "store", None) or self.store

    def seed(self, state: Discussion, agent: str, act: str, attempt: int = 0) -> int:
        """The seed (63 bits) of everything that names a call: run, question and place; never a global generator's."""
        name = json.dumps([self.settings.seed, question_id(state), *moment(state), agent, act, attempt])
        return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 1

    def temperature(self, agent: str, *, words: bool = False) -> float | None:
        """The agent's temperature: as set, or as scheme and protocol have it; None leaves a hosted model its own.

        `words`: of what it says in words, whatever its protocol.
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
        assert default is not None, "a base, or the scheme's own"
        speakers = settings.speakers()
        spread = self._spreads(agent)
        place = speakers.index(agent) if agent in speakers else 0
        return model.channel.temperature(place, len(speakers), default) if spread else default

    def base(self, agent: str) -> Base | None:
        """What a local model's temperature starts from; None where it was set, or the scheme has its own."""
        settings, model = self.settings, self.model(agent)
        if settings.temperature or not isinstance(model, HookedChatModel) or model.temperature is not None:
            return None
        # At 0 the mean of embeddings is one token's, and nothing is left of such a protocol.
        averages = self._spreads(agent) and model.channel.averages and settings.spreads_temperature
        free = settings.default_temperature is None or averages
        return model.channel.base(model.loaded) if free else None

    def _spreads(self, agent: str) -> bool:
        """Whether the protocol tells it from the other agents by its temperature."""
        settings = self.settings
        heard = agent in settings.speakers() or any(agent == speaker for speaker, _ in settings.edges())
        return settings.discusses and heard

    def guided(self, form: Form | None) -> Form | None:
        """What a reply that is to have this form is kept to, by the run's settings; None leaves it free."""
        guide = self.settings.guide
        if form is None or guide == "off" or self.settings.compat == "reference":
            return None
        return None if form.optional and guide == "auto" else form

    def final_rule(self) -> str:
        """The protocol's own way to decide, where anybody hears by one."""
        latent = self.settings.protocol != WORDS  # words are decided by the majority, and need no torch for it
        hears = latent and any(map(is_hooked, self.models.values()))
        return str(PROTOCOLS[self.settings.protocol].final_rule) if hears else "majority"


@dataclass(frozen=True, eq=False)
class Contexts(Generic[AnySettings]):
    """What a graph knows before any run: default settings and given models. It makes a context for each run."""

    kind: type[AnySettings]
    defaults: AnySettings
    models: Models = None
    store: Any = None  # Any: a PayloadStore; naming its type would import torch
    answers: tuple[str, ...] = ("answer", "revise")
    restored: tuple[str, ...] = ()
    state: type[Any] = Discussion
    """What the graph keeps, as the scheme has it."""
    acting: set[str] = field(default_factory=set)
    """Who acts in its nodes, who have no model of their own too."""
    _made: dict[str, RunContext[AnySettings]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what are no models of the agents, while the graph is made.

        Raises:
            UsageError: names what was found, or who has no model.
        """
        check_store(self.store)
        check_models(self.models, self.defaults.names(), self.defaults.human)

    def settings(self) -> AnySettings:
        """The run's settings: those of the runtime context over the graph's.

        Raises:
            UsageError: the context asks for another graph than was built, or the given models contradict it.
        """
        context = context_of(self.kind)
        settings = self.kind.model_validate({**self.defaults.model_dump(), **context})
        self._check_built(settings, "the context asks")
        return self._as_spoken(settings, self.defaults.model_fields_set | set(context))

    def of(self, state: Discussion) -> RunContext[AnySettings]:
        """The context of the settings in state.

        Raises:
            UsageError: the state was edited to what is none, or the run's context asks for other settings.
        """
        kept, key = kept_settings(state)
        context = self._made.get(key)
        if context is None:
            check_whole(kept, self.kind.model_fields)
            settings = self.kind.model_validate(kept)
            self._check_built(settings, "the state's settings ask")
            prompts = Prompts(settings.pack_folder(settings.prompts) if settings.prompts else None)
            models = self._models(settings)
            own = {} if settings.prompts else _own_prompts(models)
            context = RunContext(settings, models, prompts, self.answers, self.restored, self.store, own)
            while len(self._made) >= KEPT:
                self._made.pop(next(iter(self._made)), None)
            self._made[key] = context
        check_same(context.settings, context_of(self.kind))
        check_state(state, self.state, {*self.acting, *context.settings.names()})
        return context

    def _check_built(self, settings: Settings, who: str) -> None:
        for asked, built in zip(settings.topology(), self.defaults.topology(), strict=True):
            if asked != built:
                raise UsageError(
                    f"{who} for {asked}, but this graph was built with {built}; build it with those settings"
                )
        if settings.watch != self.defaults.watch:
            raise UsageError(f"{who} for other monitors than this graph was built with; build it with those")
        if settings.approve and not self.defaults.approve:
            raise UsageError(f"{who} a person to approve, and this graph was built without; build it with it")

    def _as_spoken(self, settings: AnySettings, chosen: set[str]) -> AnySettings:
        """Given models speak as they were made: a run must not bear settings that they never heard of."""
        if self.models is None:
            return settings
        for name in sorted(chosen & settings.of_models()):
            raise UsageError(f"the setting {name!r} is the models' own, and this graph was given models; set it there")
        given = self.models if isinstance(self.models, Mapping) else {"": self.models}
        spoken = list(dict.fromkeys(model.protocol for model in _local(given)))
        if not spoken or settings.protocol in spoken:
            return settings
        if "protocol" in chosen:
            raise UsageError(
                f"the settings ask for protocol {settings.protocol!r}, but the given models speak {', '.join(spoken)}; "
                "make the models with that protocol"
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
            raise UsageError(f"no model for agent {agent!r}, whose seat was a person's as this graph was built")
        return self.models[agent]


def made_from(settings: Settings, agent: str, store: Any = None) -> BaseChatModel:  # Any: see Contexts
    """An agent's model as the settings have it; a hosted one is told its longest reply and what monitors need."""
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
    """Return the name of the prompt pack that a model brings along; None for most."""
    return getattr(model, "pack", None)


def wording(settings: Settings, model: BaseChatModel) -> Answers:
    """Return how a model is asked for answers; a local one is loaded to know its size.

    A pack that the settings name and that words the marked line asks every model for it.
    """
    if settings.answers != "auto":
        return settings.answers
    marks = settings.prompts and (settings.pack_folder(settings.prompts) / ANSWER_LINE).exists()
    found: Answers = "short" if marks else getattr(model, "wording", "short")
    return found


def _own_prompts(models: Mapping[str, BaseChatModel]) -> dict[str, Prompts]:
    packs = {name: pack for name, model in models.items() if (pack := pack_of(model))}
    read = {pack: Prompts(SHIPPED / pack) for pack in set(packs.values())}
    return {name: read[pack] for name, pack in packs.items()}


def _local(models: Mapping[str, BaseChatModel]) -> list[HookedChatModel]:
    return [model for model in models.values() if isinstance(model, HookedChatModel)]


def _introduced(name: str, model: BaseChatModel, everyone: Mapping[str, BaseChatModel], store: Any) -> BaseChatModel:
    """A hooked model knows who will hear it (cipher averages over their tables too), and where the run's store is.

    One that was made with hearers or a store keeps its own.
    """
    if not isinstance(model, HookedChatModel):
        return model
    others = {other_name: other for other_name, other in everyone.items() if other_name != name and other is not model}
    known = {"hearers": model.hearers or tuple(_local(others)), "store": model.store or store}
    return model.model_copy(update=known)
