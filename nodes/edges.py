"""Checks of a run's edges before any model runs, and notes on edges that the protocol cannot carry."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel

from sottovoce.agents.hooked import WORDS, HookedChatModel
from sottovoce.agents.person import Person
from sottovoce.core.errors import ProtocolError, command
from sottovoce.nodes.context import RunContext


def check_edges(run: RunContext[Any]) -> list[str]:  # Any: any scheme
    """Return notes on edges that are sent as text or differ from a paper, and on settings without effect.

    Raises:
        ProtocolError: the protocol cannot carry an edge, and the settings do not allow text.
    """
    settings = run.settings
    local = [model for model in run.models.values() if isinstance(model, HookedChatModel)]
    notes = []
    if not local and settings.protocol != WORDS:
        notes.append(f"no local model takes part: all messages are text, and none uses {settings.protocol}")
    for name in dict.fromkeys(name for model in local for name in model.channel.ignores):
        if getattr(settings, name) is not None:
            notes.append(f"{name} has no effect on messages by {settings.protocol}")
    notes += [*_unnamed(run), *_cold(run)]
    for speaker, hearer in settings.edges():
        if note := _edge(run.models[speaker], run.models[hearer], words=settings.fallback == WORDS):
            notes.append(f"{hearer} hears {speaker} {note}")
    return notes


def _unnamed(run: RunContext[Any]) -> list[str]:  # Any: as above
    """Return a note on each default that is missing in a model's files: the value, and its source."""
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
    measured = f"{command('models', 'doctor', model.model)} finds the highest at which it can be read"
    return f"; {measured if model.channel.averages else 'set another with --temperature'}"


def _cold(run: RunContext[Any]) -> list[str]:  # Any: as above
    """Return a note if mean embeddings are those of single tokens, so that messages carry only text."""
    local = {name: model for name, model in run.models.items() if isinstance(model, HookedChatModel)}
    means = {name: model.protocol for name, model in local.items() if _averages(model)}
    senders = {*run.settings.speakers(), *(speaker for speaker, _ in run.settings.edges())}  # a judge's reply is text
    cold = [name for name in means if name in senders and run.temperature(name) == 0]
    if not cold:
        return []
    protocol = means[cold[0]]
    return [f"at temperature 0 {protocol} equals nl: each mean is one token's embedding ({', '.join(cold)})"]


def _averages(model: HookedChatModel) -> bool:
    """Return True if temperature 0 reduces a mean to one token; the published code uses 1 instead."""
    return model.channel.averages and model.channel.rules.cold_is_one_hot


def _edge(speaker: BaseChatModel, hearer: BaseChatModel, *, words: bool) -> str | None:
    """Return a note on an edge; None if it carries the speaker's protocol."""
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
