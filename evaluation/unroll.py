"""Which calls a scheme makes with given settings, and which models make them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, pairwise
from typing import Any

from sottovoce.errors import UsageError, choose
from sottovoce.evaluation.calls import Call, Edge, Unrolled, framed, hears_all_others, hears_others
from sottovoce.nodes.settings import Debate, Settings


def unroll(scheme: str, settings: Settings) -> Unrolled:
    """A scheme as these settings have it; an agent's own system prompt is part of its prompts.

    Raises:
        UsageError: there is no such scheme.
    """
    key = scheme.replace("-", "_")
    if key not in UNROLLED:
        raise UsageError(choose("scheme", scheme, list(UNROLLED)))
    systems = dict(zip(settings.names(), settings.each("system"), strict=False))  # none were given, or one each
    return UNROLLED[key](settings).told({name: f"system {text!r}" for name, text in systems.items() if text})


def spoken_by(settings: Settings) -> dict[str, str]:
    """Each agent's model: at another temperature it is another one (another distribution of replies)."""
    from sottovoce.nodes.summarise import SUMMARISER  # late: it imports langchain

    agents, warmth = settings.names(), _temperatures(settings)
    models = {name: f"{model} at {warmth[name]}" for name, model in zip(agents, settings.each("model"), strict=True)}
    return {**models, SUMMARISER: models[agents[0]]}


def debate(settings: Debate) -> Unrolled:
    """All hear the others' answers of the round before, or a summary of them; experts and dummies hear nobody."""
    decider = _decider(settings)
    rows = [[_debater(settings, name, r) for name in settings.names()] for r in range(settings.rounds)]
    if settings.last_round == "deciding":
        rows[-1] = [call for call in rows[-1] if call.agent == decider]
    edges = [edge for before, now in pairwise(rows) for edge in _heard(settings, before, now)]
    debaters = [call for call in rows[-1] if settings.roles()[call.agent] == "debater"] or rows[-1]
    by_one = _rule(settings) == "lowest_temperature"
    return framed(edges, chain.from_iterable(rows), [call for call in debaters if not by_one or call.agent == decider])


def independent(settings: Settings) -> Unrolled:
    """Each answers alone: the single agent and self-consistency's samples."""
    calls = [Call(name, 0, "shared/answer") for name in settings.names()]
    return framed([], calls, calls)


UNROLLED: dict[str, Callable[[Any], Unrolled]] = {  # Any: each takes its own settings
    "debate": debate,
    "single": independent,
    "self_consistency": independent,
}


def _debater(settings: Debate, name: str, round: int) -> Call:
    role = settings.roles()[name]
    if role != "debater":
        return Call(name, round, role)
    revises = "verify" if settings.agents == 1 else "fresh" if settings.shape == "fresh" else "revise"
    prompt = f"debate/{revises if settings.summarise == 'none' else 'revise_from_summary'}"
    return Call(name, round, prompt if round else "shared/answer")


def _heard(settings: Debate, before: Sequence[Call], now: Sequence[Call]) -> list[Edge]:
    from sottovoce.nodes.summarise import SUMMARISER  # late: it imports langchain

    hearers = [call for call in now if settings.roles()[call.agent] == "debater"]
    if settings.summarise == "none":
        return hears_all_others(before, hearers)
    if settings.summarise == "shared":
        summary = Call(SUMMARISER, before[0].round, "debate/summarise")
        return [*hears_others(before, summary), *(Edge(summary, call, "summary") for call in hearers)]
    own = [(Call(call.agent, call.round, "debate/summarise"), call) for call in hearers]
    return [edge for summary, call in own for edge in (*hears_others(before, summary), Edge(summary, call, "summary"))]


def _temperatures(settings: Settings) -> dict[str, str]:
    """As set; else as the protocol spreads the models' own."""
    from sottovoce.channels.registry import PROTOCOLS  # late: it imports torch

    names, values = settings.names(), settings.each("temperature")
    if values:
        return {name: f"temperature {value:.4g}" for name, value in zip(names, values, strict=True)}
    channel, n = PROTOCOLS[settings.protocol](), len(names) if settings.discusses else 1
    shares = [channel.temperature(i if settings.discusses else 0, n, 1.0) for i in range(len(names))]
    return {
        name: "its own temperature" if share == 1 else f"{share:.4g} of its temperature"
        for name, share in zip(names, shares, strict=True)
    }


def _rule(settings: Debate) -> str:
    from sottovoce.channels.registry import PROTOCOLS  # late: it imports torch

    if settings.rule is None and settings.last_round == "deciding":
        return "lowest_temperature"
    return settings.rule or PROTOCOLS[settings.protocol].final_rule


def _decider(settings: Debate) -> str:
    """The debater with the lowest temperature, the first of several; unset ones count as equal or rising."""
    warmth = dict(zip(settings.names(), settings.each("temperature") or [1.0] * settings.agents, strict=True))
    debaters = [name for name, role in settings.roles().items() if role == "debater"]
    return min(debaters or settings.names(), key=warmth.__getitem__)
