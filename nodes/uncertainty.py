"""Uncertainty of an agent about its messages: from its model's log-probabilities to the features of a watched act."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sottovoce.channels.message import Message
from sottovoce.core.errors import UsageError

if TYPE_CHECKING:
    from sottovoce.agents.local import LocalModel
    from sottovoce.channels.store import PayloadStore
    from sottovoce.monitors.features import Features
    from sottovoce.monitors.settings import Measure
    from sottovoce.monitors.tokens import Decode
    from sottovoce.nodes.agent import Agent

Decoders = Callable[[str], "Decode | None"]
"""Takes an agent, and returns the decoder of its model's token ids; None for a hosted model."""


def entropy_of(message: Message, answer: str, store: PayloadStore | None) -> float | None:
    """Return the mean entropy, in nats, over the tokens that state an answer: its last mention, or the whole reply.

    None for hosted models, people and rules. Raises a PayloadError if the payload is missing or damaged.
    """
    if message.latent is None:
        return None
    payload = message.latent.load(store)
    if "entropy" not in payload.tensors:
        return None
    mentions = re.finditer(rf"(?<!\w){re.escape(answer)}(?!\w)", message.text, re.IGNORECASE)
    spans = [each.span() for each in mentions][-1:] or [(0, len(message.text))]
    entropies = payload.tensors["entropy"][payload.tokens(spans)]
    return round(float(entropies.mean()), 4) if len(entropies) else None


def finished(messages: Sequence[Message]) -> list[Message]:
    """Return one message for each act: the last of several attempts, without answer turns.

    A withdrawn message that was repeated was an act of its own.
    """
    repaired = {message.place for message in messages if message.asked == "repair"}
    return [
        message
        for message in messages
        if message.asked != "answer" and message.place._replace(attempt=message.attempt + 1) not in repaired
    ]


def decoder_of(model: LocalModel | None) -> Decode | None:
    """Return the decoder of a local model's token ids; None for a hosted model."""
    if model is None:
        return None
    tokenizer = model.loaded.tokenizer
    return lambda at: str(tokenizer.decode([at]))


def features_of_acts(
    messages: Sequence[Message], measure: Measure, store: PayloadStore | None, decoders: Decoders = lambda agent: None
) -> Features | None:
    """Return the features of one agent's acts, the maximum of each statistic; for several agents, their minimum.

    Positions of a reply and wishes of a group are combined in the same way (arXiv 2502.05986).
    None if no reply has any of the positions, or any token, or if all are from rules or people.

    Raises:
        UsageError: a model returned no log-probabilities.
        PayloadError: a payload is missing or damaged.
    """
    from sottovoce.monitors.features import combined, features_of
    from sottovoce.monitors.tokens import of_payload

    found: dict[str, list[Features]] = {}
    for message in finished(messages):
        if message.source not in ("model", "hosted") or not message.text:
            continue
        ref = message.thoughts_payload if measure.positions == "thoughts" else message.uncertainty
        if ref is None:
            raise UsageError(
                f"the monitor that watches {message.agent} needs log-probabilities, and its model returned none; "
                "create the model with logprobs=True, top_logprobs=10, or watch other agents"
            )
        tokens = of_payload(ref.load(store), decoders(message.agent))
        if features := features_of(tokens, measure):
            found.setdefault(message.agent, []).append(features)
    return combined([combined(acts, max) for acts in found.values()], min) if found else None


def missing_features(agent: Agent, measure: Measure) -> str:
    """Return which features a chat model cannot return, and what to do; empty if it may: local models can."""
    if agent.is_hooked:
        return ""
    model = agent.model
    if getattr(model, "logprobs", True) in (None, False):
        return "returns no log-probabilities; make it with logprobs=True, top_logprobs=10"
    if measure.distribution != "top":
        return f"returns the most probable tokens alone, and not {measure}"
    most = getattr(model, "top_logprobs", measure.top) or 0
    few = f"returns {most} most probable tokens of each position; make it with top_logprobs={measure.top}"
    return few if most < measure.top else ""
