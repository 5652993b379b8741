"""Who can hear whom: every edge of a run is checked before anybody speaks, and what is not carried is noted."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel

from sottovoce.agents.hooked import WORDS, HookedChatModel
from sottovoce.agents.person import Person
from sottovoce.errors import ProtocolError, command
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
    notes += [*_unnamed(run), *_cold(run)]
    for speaker, hearer in settings.edges():
        if note := _edge(run.models[speaker], run.models[hearer], words=settings.fallback == WORDS):
            notes.append(f"{hearer} hears {speaker} {note}")
    return notes


def _unnamed(run: RunContext[Any]) -> list[str]:  # Any: as above
    """Return a note for each default of a model that its files do not name: the value, and its source."""
    notes = dict[str, None]()
    for name, model in run.models.items():
        if not isinstance(model, HookedChatModel):
            continue
        if (base := run.base(name)) and base.why:
            said = f"{model.loaded.name} names no temperature: {model.protocol} starts from {base.value:g}, {base.why}"
            notes[said + _todo(model, sure=base.sure)] = None
        unset = run.settings.top_p is None and model.top_p is None
        if unset and run.temperature(name) and (top_p := model.channel.known_top_p(model.loaded)):
            notes[f"{model.loaded.name} names no top_p: {model.protocol} takes {top_p.value:g}, {top_p.why}"] = None
    return list(notes)


def _todo(model: HookedChatModel, *, sure: bool) -> str:
    if sure:
        return ""
    measured = f"{command('doctor', model.model)} finds the warmest at which it can be read"
    return f"; {measured if model.channel.averages else 'set another with --temperature'}"


def _cold(run: RunContext[Any]) -> list[str]:  # Any: as above
    """Return a note where means of embeddings are single tokens, so that nothing is carried beside words."""
    local = {name: model for name, model in run.models.items() if isinstance(model, HookedChatModel)}
    means = {name: model.protocol for name, model in local.items() if _averages(model)}
    senders = {*run.settings.speakers(), *(speaker for speaker, _ in run.settings.edges())}  # a judge speaks in words
    cold = [name for name in means if name in senders and run.temperature(name) == 0]
    if not cold:
        return []
    protocol = means[cold[0]]
    return [f"at temperature 0 {protocol} equals nl: each mean is one token's embedding ({', '.join(cold)})"]


def _averages(model: HookedChatModel) -> bool:
    """Tell whether temperature 0 leaves one token of a mean; the published code takes 1 in its place."""
    return model.channel.averages and model.channel.rules.cold_is_one_hot


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
