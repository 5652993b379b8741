"""How unsure an agent was of what it said: from what its model returned to the features of a watched act."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage

from sottovoce.agents.ask import is_hooked
from sottovoce.channels.message import Message
from sottovoce.channels.store import PayloadRef
from sottovoce.errors import UsageError

if TYPE_CHECKING:
    from sottovoce.channels.store import PayloadStore
    from sottovoce.monitors.features import Features
    from sottovoce.monitors.settings import Measure

WORDS = "words"
"""The protocol that is named in a payload which holds log-probabilities of a hosted model, and nothing to be heard."""


def measured(reply: AIMessage, store: PayloadStore | None) -> PayloadRef | None:
    """Keep the log-probabilities that a hosted model returned, if it did; local models' payloads have statistics."""
    if not reply.response_metadata.get("logprobs"):
        return None
    import torch  # late, as in all that may run without a local model

    from sottovoce.channels.payload import Label, Payload
    from sottovoce.channels.store import PayloadStore
    from sottovoce.monitors.tokens import of_response

    try:
        tokens = of_response(reply)
    except UsageError:  # log-probabilities of the chosen tokens alone tell nothing of a distribution
        return None
    k = min(map(len, tokens.top))
    tensors = {
        "ids": torch.full((len(tokens),), -1),  # a provider's own ids are not told
        "spans": torch.tensor(tokens.spans),
        "top_logprobs": torch.tensor([each[:k] for each in tokens.top]),
    }
    return (store or PayloadStore()).put(Payload(Label(WORDS, tokens.text, "", "", ""), tensors))


def finished(messages: Sequence[Message]) -> list[Message]:
    """Of several attempts the one that was published or acted on, and no answer turn: a message an act.

    What was withdrawn and done again was an act by itself.
    """
    repaired = {message.place for message in messages if message.asked == "repair"}
    return [
        message
        for message in messages
        if message.asked != "answer" and message.place._replace(attempt=message.attempt + 1) not in repaired
    ]


def features_of_acts(messages: Sequence[Message], measure: Measure, store: PayloadStore | None) -> Features | None:
    """The features of what one agent said, the highest of its acts; of several agents the lowest of theirs.

    By statistic, as for positions of a reply and wishes of a group (arXiv 2502.05986).
    None where nobody's reply has any of the positions, or a token at all, or all were said by rule or by a person.

    Raises:
        UsageError: a model returned no log-probabilities.
        PayloadError: a payload is missing or damaged.
    """
    from sottovoce.monitors.features import combined
    from sottovoce.monitors.measure import features_of
    from sottovoce.monitors.tokens import of_payload

    found: dict[str, list[Features]] = {}
    for message in finished(messages):
        if message.source not in ("model", "hosted") or not message.text:
            continue
        if message.uncertainty is None:
            raise UsageError(_untold(message))
        if features := features_of(of_payload(message.uncertainty.load(store)), measure):
            found.setdefault(message.agent, []).append(features)
    return combined([combined(acts, max) for acts in found.values()], min) if found else None


def _untold(message: Message) -> str:
    return (
        f"the monitor that watches {message.agent} needs log-probabilities, and its model returned none; "
        "make the model with logprobs=True, top_logprobs=10, or watch others"
    )


def lacking(model: Any, measure: Measure) -> str:  # Any: a chat model
    """What of the features a chat model surely does not return, and what to do; empty where it may: local ones do."""
    if is_hooked(model):
        return ""
    if getattr(model, "logprobs", True) in (None, False):
        return "returns no log-probabilities; make it with logprobs=True, top_logprobs=10"
    if measure.distribution != "top":
        return f"returns the most probable tokens alone, and not {measure}"
    most = getattr(model, "top_logprobs", measure.top) or 0
    few = f"returns {most} most probable tokens of each position; make it with top_logprobs={measure.top}"
    return few if most < measure.top else ""
