"""One run as its acts see it: settings with the models and prompts they name, seeds, temperatures, edges."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic

from langchain_core.language_models.chat_models import BaseChatModel

from sottovoce.agents.ask import Ask
from sottovoce.agents.hooked import HookedChatModel
from sottovoce.channels.message import Turn
from sottovoce.errors import ProtocolError
from sottovoce.nodes.settings import AnySettings
from sottovoce.nodes.state import Discussion, Question, question_id
from sottovoce.nodes.views import View
from sottovoce.prompts.render import Prompts


@dataclass(frozen=True, eq=False)
class Stage(Generic[AnySettings]):
    """One run's settings with the models and prompts they name."""

    settings: AnySettings
    models: Mapping[str, BaseChatModel]
    prompts: Prompts
    samples: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """ReConcile's convincing samples as they are shown, by file; read when the stage is made."""

    def view(self, question: Question, agent: str, owner: str | None) -> View:
        """How `agent` sees the question, with the documents of `owner` (None: everybody's)."""
        systems = self.settings.each("system")
        system = systems[self.settings.names().index(agent)] if systems else ""
        return View(self.prompts, question, owner, system, agent, self.settings.components())

    def ask(
        self, state: Discussion, agent: str, turns: list[Turn], act: str, attempt: int = 0, *, speaks: str | None = None
    ) -> Ask:
        """A question to an agent's model, with the seed and temperature of this place in the run."""
        round = max(state.get("round", 0), 0)
        seed = derived_seed(self.settings.seed, question_id(state), round, agent, act, attempt)
        warmth = self.temperature(agent)
        return Ask(agent, self.models[agent], tuple(turns), act, round, seed, warmth, speaks, attempt)

    def temperature(self, agent: str) -> float | None:
        """The agent's temperature: as set, or as scheme and protocol have it; None leaves a hosted model its own."""
        names, values = self.settings.names(), self.settings.each("temperature")
        model, own = self.models[agent], self.settings.warmth
        if values:
            return float(values[names.index(agent)])
        if not isinstance(model, HookedChatModel):
            return None
        if model.temperature is not None:
            return model.temperature
        speakers = self.settings.speakers()
        spread = self.settings.discusses and agent in speakers
        # At 0 the mean of embeddings is one token's, and nothing is left of such a protocol.
        default = model.loaded.sampling.temperature if own is None or (spread and model.channel.averages) else own
        return model.channel.temperature(speakers.index(agent), len(speakers), default) if spread else default

    def final_rule(self) -> str:
        """The protocol's own way to decide."""
        rules = [model.channel.final_rule for model in self.models.values() if isinstance(model, HookedChatModel)]
        return rules[0] if rules else "majority"

    def check_edges(self) -> list[str]:
        """Check that every agent can hear every other; returns notes on edges that go in words or outside a paper.

        Raises:
            ProtocolError: an edge cannot be carried and the settings do not allow words.
        """
        words = type(self.settings).model_fields["protocol"].default
        hosted = not any(isinstance(model, HookedChatModel) for model in self.models.values())
        notes = []
        if hosted and self.settings.protocol != words:
            notes.append(f"no local model takes part: all is said in words, and nothing by {self.settings.protocol}")
        for speaker, hearer in self.settings.edges():
            if note := self._edge(self.models[speaker], self.models[hearer]):
                notes.append(f"{hearer} hears {speaker} {note}")
        return notes

    def _edge(self, speaker: BaseChatModel, hearer: BaseChatModel) -> str | None:
        """What a reader must know of an edge; None where it carries what the speaker's protocol says."""
        if not isinstance(speaker, HookedChatModel) or not isinstance(hearer, HookedChatModel):
            latent = any(isinstance(each, HookedChatModel) and each.channel.latent for each in (speaker, hearer))
            return "in words: one of them is a hosted model" if latent else None
        if speaker.protocol != hearer.protocol:
            return f"in words: they speak {speaker.protocol} and {hearer.protocol}"
        try:
            return speaker.channel.check(speaker.loaded, hearer.loaded)
        except ProtocolError as problem:
            if self.settings.fallback == "error":
                raise
            return f"in words: {problem}"


def derived_seed(run: int, question: str, round: int, agent: str, act: str, attempt: int = 0) -> int:
    """A seed (63 bits) from everything that names a call; never from a global generator."""
    name = json.dumps([run, question, round, agent, act, attempt])
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 1
