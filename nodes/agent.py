"""`Agent`: the one object that knows an agent's model, protocol, temperature, prompts and documents.

It is built once for a run, with the run context. Values that depend on the place of a message (its seed, its attempt)
are passed with each request, see `say`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from sottovoce.channels.message import words
from sottovoce.core.any_types import Unimported
from sottovoce.core.errors import ContextOverflow, EngineError, LateReply
from sottovoce.nodes.option_groups import COMPONENTS
from sottovoce.nodes.prompt_builder import PromptBuilder

if TYPE_CHECKING:
    from langchain_core.language_models.chat_models import BaseChatModel

    from sottovoce.agents.ask import Ask
    from sottovoce.agents.local import Grew, LocalModel
    from sottovoce.agents.parameters import Refused
    from sottovoce.channels.message import Message
    from sottovoce.core.response_format import Form
    from sottovoce.models import Base
    from sottovoce.nodes.question import Question
    from sottovoce.nodes.settings import Answers, Settings
    from sottovoce.prompts.render import Prompts

ANSWER_LINE = "shared/answer_line.md"


@dataclass(frozen=True, eq=False)
class Agent:
    """One agent of a run."""

    name: str
    settings: Settings
    """The settings of the run."""
    model: BaseChatModel
    prompts: Prompts
    refused: Refused = field(repr=False)
    """Knowledge of the run about hosted models: refused parameters, and thoughts."""
    run_store: Unimported = None
    person: str = ""
    """The reason that a person plays the agent, or an empty text if its model does."""

    async def reply(self, ask: Ask, grew: Grew | None = None) -> Message:
        """Return the agent's reply to a request, which has its place and seed; `grew` takes the text as it grows.

        Raises:
            ContextOverflow: the prompt does not fit into the model's context.
            EngineError: the model failed, or was late.
        """
        from sottovoce.agents import chat_model, person  # late: langchain and langgraph

        if self.person:
            message = person.reply(ask, self.person)
        else:
            own = self.settings.thinking, self.settings.thinking_markers
            try:
                message = await chat_model.reply(self.model, ask, self.refused, self.run_store, *own, grew)
            except (ContextOverflow, EngineError) as error:  # the engine knows no agents
                whose = f"{self.name}, {ask.act}" if isinstance(error, LateReply) else self.name
                raise type(error)(f"{whose}: {error}") from error
        return replace(message, order=self.order)

    def prompt(self, ask: Ask) -> list[tuple[str, str]]:
        """Return role and text of each turn of a request, as the agent gets them. Payloads appear as words."""
        from sottovoce.agents.convert import texts_of

        if self.person or self.is_hooked:
            return [(turn.role, turn.text) for turn in ask.turns]
        return [*texts_of(ask.turns, words(ask.prefill))]

    @cached_property
    def order(self) -> int:
        """The agent's place in the settings; agents that are not in the settings come last."""
        names = self.settings.names()
        return names.index(self.name) if self.name in names else len(names)

    @cached_property
    def local(self) -> LocalModel | None:
        """The local model, or None if a hosted one, a script or a person replies."""
        from sottovoce.agents.local import LocalModel

        return self.model if isinstance(self.model, LocalModel) else None

    @cached_property
    def is_hooked(self) -> bool:
        """True if heard messages reach the model as messages and not only as text."""
        from sottovoce.agents.chat_model import is_hooked

        return is_hooked(self.model)

    @property
    def store(self) -> Unimported:
        """The store of the payloads of its replies."""
        return getattr(self.model, "store", None) or self.run_store

    @cached_property
    def wording(self) -> Answers:
        """The wording of requests for answers: see `wording`."""
        return wording(self.settings, self.model)

    @cached_property
    def system(self) -> str:
        """The agent's system prompt, or an empty text if it has none."""
        return self.settings.of("system", self.name) or "" if self.name in self.settings.names() else ""

    @cached_property
    def components(self) -> frozenset[str]:
        """The prompt components that are switched on."""
        return frozenset(name for name in COMPONENTS if getattr(self.settings, name))

    def prompt_builder(self, question: Question, owner: str | None = "") -> PromptBuilder:
        """Return a builder of the agent's prompts with the documents of `owner`, by default its own. None means all."""
        documents = self.name if owner == "" else owner
        return PromptBuilder(self.prompts, question, documents, self.system, self.name, self.components, self.wording)

    def constraint(self, form: Form | None) -> Form | None:
        """Return the format that constrains a reply's decoding, by the run's settings, or None if it is free."""
        guide = self.settings.guide
        if form is None or guide == "off" or self.settings.compat == "reference":
            return None
        return None if form.optional and guide == "auto" else form

    @cached_property
    def temperature(self) -> float | None:
        """The agent's temperature: as set, else by scheme and protocol; None leaves it to a hosted model."""
        return self._temperature(words=False)

    @cached_property
    def temperature_in_words(self) -> float | None:
        """The temperature of replies in text, whatever the agent's protocol."""
        return self._temperature(words=True)

    def _temperature(self, *, words: bool) -> float | None:
        from sottovoce.agents.scripted import ScriptedChatModel

        settings, default = self.settings, self.settings.default_temperature
        if settings.temperature:
            return float(settings.of("temperature", self._configured))
        own = getattr(self.model, "temperature", None)
        if own is not None and (self.local is not None or isinstance(self.model, ScriptedChatModel)):
            return float(own)
        if (local := self.local) is None:
            return default
        if base := self.base:
            of_words = local.channel.base(local.loaded, words=True).value if default is None else default
            default = of_words if words else base.value
        assert default is not None, "there is a base, or the scheme has a temperature"
        speakers = settings.speakers()
        place = speakers.index(self._configured) if self._configured in speakers else 0
        return local.channel.temperature(place, len(speakers), default) if self._spreads else default

    @cached_property
    def base(self) -> Base | None:
        """The base of a local model's temperature, or None if it was set or the scheme has its own."""
        settings, local = self.settings, self.local
        if settings.temperature or local is None or local.temperature is not None:
            return None
        # At 0 a mean embedding is that of one token, and such a protocol equals text.
        averages = self._spreads and local.channel.averages and settings.spreads_temperature
        free = settings.default_temperature is None or averages
        return local.channel.base(local.loaded) if free else None

    @cached_property
    def _configured(self) -> str:
        """The agent whose settings this one uses: itself, or the first agent if the settings do not have it."""
        names = self.settings.names()
        return self.name if self.name in names else names[0]

    @cached_property
    def _spreads(self) -> bool:
        """True if the protocol may vary the agent's temperature: agents discuss, and this one is heard."""
        name, settings = self._configured, self.settings
        heard = name in settings.speakers() or any(name == speaker for speaker, _ in settings.edges())
        return settings.discusses and heard


def wording(settings: Settings, model: BaseChatModel) -> Answers:
    """Return the wording of requests for answers. A local model is loaded to know its size.

    A prompt pack in the settings with its own wording of the marked line uses it for every model.
    """
    marks = settings.prompts and (settings.pack_folder(settings.prompts) / ANSWER_LINE).exists()
    found: Answers = "short" if marks else getattr(model, "wording", "short")
    return found
