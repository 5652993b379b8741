"""The cost of a discussion's calls: tokens, FLOPs, and the bytes that messages carry besides words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from pydantic import BaseModel

from sottovoce.channels import AVERAGING
from sottovoce.channels.message import Message
from sottovoce.core.text import counted
from sottovoce.nodes.hearing import HEARD_LATENT, HEARD_PLAIN
from sottovoce.runs.manifest import AgentModel

LATENT = "latent"
"""A measure of a discussion that escalates: the share of messages that were heard with more than their words."""
BYTES = "bytes a message"
"""A measure of a discussion in which messages carry more than words."""


class Cost(BaseModel):
    """The cost of a discussion's calls."""

    calls: int = 0
    tokens_in: int = 0
    tokens_reused: int = 0
    """Tokens of `tokens_in` that came from the prefix cache."""
    tokens_out: int = 0
    uncounted: int = 0
    """Calls whose tokens the server did not report; the other fields lack them."""

    @property
    def tokens(self) -> str:
        """The tokens in words, with the number of calls whose tokens are unknown."""
        if self.uncounted == self.calls > 0:
            return "tokens not reported"
        lacks = f" (not reported for {counted(self.uncounted, 'call')})" if self.uncounted else ""
        return f"{counted(self.tokens_in, 'token')} read, {counted(self.tokens_out, 'token')} written{lacks}"

    def add(self, message: Message) -> None:
        """Add the call that made a message, if a model made it."""
        if message.source in ("model", "hosted"):
            self.calls += 1
            self.uncounted += "tokens_out" not in message.stats
            for name in ("tokens_in", "tokens_reused", "tokens_out"):
                setattr(self, name, getattr(self, name) + int(message.stats.get(name, 0)))


def flops(messages: Sequence[Message], models: Mapping[str, AgentModel]) -> float | None:
    """Return the approximate FLOPs of calls: 2 per parameter and computed token (arXiv 2001.08361, 2.1).

    None if a hosted model spoke. Reused tokens of a prompt count nothing: their keys and values are cached. A
    tied table counts once, as the head that multiplies by it; an untied one counts twice. The head also counts
    for every token of a prompt, though only the last one has logits (the head of SmolLM2-135M is 21 % of it). A
    CIPHER token costs a mean over the table of each hearer and a search for the nearest token in the speaker's:
    2 x vocabulary x width each, as for the full product (a CPU may search less). Attention to earlier tokens is
    left out (SmolLM2-135M: 13 % at position 500), and so are a retriever's encoders and rerankers.
    """
    total = 0.0
    for message in messages:
        if message.source not in ("model", "hosted"):  # no model computed it
            continue
        # An agent without a model of its own uses the first agent's.
        model = models.get(message.agent, next(iter(models.values()), None))
        if message.source == "hosted" or model is None:
            return None
        averaged = 0.0
        if message.payload is not None and message.payload.protocol in AVERAGING:
            tables = {each.weights: each.table for each in models.values() if each.vocabulary == model.vocabulary}
            averaged = (sum(tables.values()) + model.table) * message.stats.get("tokens_out", 0)
        total += float(2 * (model.parameters * computed_tokens(message) + averaged))
    return total


def computed_tokens(message: Message) -> float:
    """Return how many positions a call computed: those read and not reused, latent steps, and those written."""
    stats = message.stats
    return (
        stats.get("thoughts", 0)
        + stats.get("tokens_in", 0)
        - stats.get("tokens_reused", 0)
        + stats.get("tokens_out", 0)
    )


def payload_measures(messages: Sequence[Message]) -> dict[str, float]:
    """Return the mean bytes that messages carry besides words, and the share of messages heard with their payload.

    The mean is over messages that carry any. The share is defined only if the discussion may escalate.
    """
    sizes = [size for message in messages if (size := message.stats.get("carried_bytes"))]
    latent, plain = (sum(each.stats.get(name, 0) for each in messages) for name in (HEARD_LATENT, HEARD_PLAIN))
    return {
        **({BYTES: fmean(sizes)} if sizes else {}),
        **({LATENT: latent / (latent + plain)} if latent + plain else {}),
    }
