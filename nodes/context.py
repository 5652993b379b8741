"""The run context: the settings, models and prompts of one run, for its acts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from langchain_core.language_models.chat_models import BaseChatModel

from sottovoce.agents.ask import Person, is_hooked
from sottovoce.agents.hooked import WORDS, HookedChatModel
from sottovoce.agents.hosted import hosted, is_hosted
from sottovoce.agents.parameters import Refused
from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels import PROTOCOLS
from sottovoce.channels.message import Message
from sottovoce.core.any_types import Unimported
from sottovoce.core.response_format import Form
from sottovoce.nodes.option_groups import COMPONENTS, OF_SAMPLING
from sottovoce.nodes.prompt_builder import PromptBuilder
from sottovoce.nodes.question import Question, question_id
from sottovoce.nodes.settings import Answers, AnySettings, Settings
from sottovoce.nodes.state import Discussion, attempt_of, moment
from sottovoce.prompts.render import Prompts

if TYPE_CHECKING:
    from sottovoce.models import Base

T = TypeVar("T")
MOST_PROBABLE = 10
"""Top tokens of each position that a watched hosted model returns: monitors measure ten (arXiv 2502.05986)."""
ANSWER_LINE = "shared/answer_line.md"


@dataclass(frozen=True, eq=False)
class RunContext(Generic[AnySettings]):
    """The settings, models and prompts of one run."""

    settings: AnySettings
    models: Mapping[str, BaseChatModel]
    prompts: Prompts
    """The prompts of agents whose model has no pack of its own."""
    answers: tuple[str, ...] = ("answer", "revise")
    """The scheme's acts that contain answers."""
    store: Unimported = None
    """The store of payloads; None is the default folder."""
    packs: Mapping[str, Prompts] = field(default_factory=dict)
    """Prompts of the agents whose model has a pack of its own: see `packs.TRAINED`."""
    memo: dict[str, Any] = field(default_factory=dict)  # Any: values of acts
    """Values that acts read once in a run, e.g. a file that the settings name."""
    refused: Refused = field(default_factory=Refused)
    """The parameters that servers of hosted models have refused in this run."""

    def once(self, name: str, read: Callable[[], T]) -> T:
        """Return the value of that name in `memo`, read at its first use in a run."""
        if name not in self.memo:
            self.memo[name] = read()
        value: T = self.memo[name]
        return value

    def prompt_builder(self, question: Question, agent: str, owner: str | None = "") -> PromptBuilder:
        """Return a builder of `agent`'s prompts with the documents of `owner`: by default its own; None means all."""
        system = self.settings.of("system", agent) or "" if agent in self.settings.names() else ""
        documents = agent if owner == "" else owner
        components = frozenset(name for name in COMPONENTS if getattr(self.settings, name))
        return PromptBuilder(
            self.prompts_of(agent), question, documents, system, agent, components, self.wording(agent)
        )

    def prompts_of(self, agent: str) -> Prompts:
        """Return an agent's prompts; an agent without a model of its own uses the first agent's."""
        owner = agent if agent in self.models else self.settings.names()[0]
        return self.packs.get(owner, self.prompts)

    def wording(self, agent: str) -> Answers:
        """Return the wording of requests for answers to an agent: see `wording`."""
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

    def store_of(self, agent: str) -> Unimported:
        """Return the store of the payloads of an agent's replies."""
        return getattr(self.model(agent), "store", None) or self.store

    def seed(self, state: Discussion, agent: str, act: str, attempt: int = 0) -> int:
        """Return a call's seed (63 bits), a digest of run, question and place; no global generator is used."""
        name = json.dumps([self.settings.seed, question_id(state), *moment(state), agent, act, attempt])
        return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 1

    def message(self, state: Discussion, agent: str, act: str, text: str, **fields: Any) -> Message:  # Any: a message's
        """Return a message that no model wrote, said now: by default by a rule, as the next attempt at its act."""
        epoch, round, turn = moment(state)
        usual = {"attempt": attempt_of(state, agent, act), "epoch": epoch, "turn": turn, "order": self.order(agent)}
        return Message(agent, round, act, text, **{**usual, "source": "rule", **fields})

    def temperature(self, agent: str, *, words: bool = False) -> float | None:
        """Return the agent's temperature: as set, else by scheme and protocol; None leaves it to a hosted model.

        `words`: for replies in text, whatever its protocol.
        """
        settings, model, default = self.settings, self.model(agent), self.settings.default_temperature
        agent = agent if agent in settings.names() else settings.names()[0]
        if settings.temperature:
            return float(settings.of("temperature", agent))
        if isinstance(model, HookedChatModel | ScriptedChatModel) and model.temperature is not None:
            return model.temperature
        if not isinstance(model, HookedChatModel):
            return default
        if base := self.base(agent):
            of_words = model.channel.base(model.loaded, words=True).value if default is None else default
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


def made_from(settings: Settings, agent: str, store: Unimported = None) -> BaseChatModel:
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
        **settings.model_dump(include={*OF_SAMPLING, "thinking", "share_thoughts", "exact"}),
        thinking_markers=settings.thinking_markers,
        brief=settings.brief,
    )


def wording(settings: Settings, model: BaseChatModel) -> Answers:
    """Return the wording of requests for answers; a local model is loaded to know its size.

    A prompt pack in the settings with its own wording of the marked line uses it for every model.
    """
    marks = settings.prompts and (settings.pack_folder(settings.prompts) / ANSWER_LINE).exists()
    found: Answers = "short" if marks else getattr(model, "wording", "short")
    return found
