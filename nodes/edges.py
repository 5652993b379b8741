"""Who can hear whom: every edge of a run is checked before anybody speaks, and what is not carried is noted."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel

from sottovoce.agents.hooked import WORDS, HookedChatModel
from sottovoce.agents.person import Person
from sottovoce.errors import ProtocolError
from sottovoce.nodes.context import RunContext


def check_edges(run: RunContext[Any]) -> list[str]:  # Any: of every scheme
    """What a reader must know: edges that go in words or outside a paper, settings that have no effect.

    Raises:
        ProtocolError: an edge cannot be carried and the settings do not allow words.
    """
    settings = run.settings
    local = [model for model in run.models.values() if isinstance(model, HookedChatModel)]
    notes = []
    if not local and settings.protocol != WORDS:
        notes.append(f"no local model takes part: all is said in words, and nothing by {settings.protocol}")
    for name in dict.fromkeys(name for model in local for name in model.channel.ignores):
        if getattr(settings, name) is not None:
            notes.append(f"{name} has no effect on what is said by {settings.protocol}")
    notes += _unnamed(run)
    for speaker, hearer in settings.edges():
        if note := _edge(run.models[speaker], run.models[hearer], words=settings.fallback == WORDS):
            notes.append(f"{hearer} hears {speaker} {note}")
    return notes


def _unnamed(run: RunContext[Any]) -> list[str]:  # Any: as above
    """The models whose files name no temperature for what their agents say, and what they speak at instead."""
    notes = dict[str, None]()
    for name, model in run.models.items():
        if not isinstance(model, HookedChatModel) or not model.channel.averages:
            continue
        if (base := run.base(name)) and base.why:
            todo = "" if base.sure else f"; `doctor {model.model}` finds the warmest at which it can be read"
            said = f"{model.loaded.name} names no temperature: {model.protocol} starts from {base.value:g}, {base.why}"
            notes[said + todo] = None
    return list(notes)


def _edge(speaker: BaseChatModel, hearer: BaseChatModel, *, words: bool) -> str | None:
    """What a reader must know of an edge; None where it carries what the speaker's protocol says."""
    if not isinstance(speaker, HookedChatModel) or not isinstance(hearer, HookedChatModel):
        other = "a person" if any(isinstance(each, Person) for each in (speaker, hearer)) else "a hosted model"
        latent = any(isinstance(each, HookedChatModel) and each.channel.latent for each in (speaker, hearer))
        return f"in words: one of them is {other}" if latent else None
    if speaker.protocol != hearer.protocol:
        return f"in words: they speak {speaker.protocol} and {hearer.protocol}"
    try:
        return speaker.channel.check(speaker.loaded, hearer.loaded)
    except ProtocolError as problem:
        if not words:
            raise
        return f"in words: {problem}"
