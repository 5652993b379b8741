"""The cost of a discussion's calls: tokens, FLOPs, money, and the bytes that messages carry besides words."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, Field, field_serializer

from sottovoce.channels import AVERAGING
from sottovoce.channels.message import Message
from sottovoce.core.errors import UsageError
from sottovoce.core.files import text_of
from sottovoce.core.text import counted, shortened
from sottovoce.core.validation import Checked
from sottovoce.runs.log import Asked
from sottovoce.runs.manifest import AgentModel

LATENT = "latent"
"""A measure of a discussion that escalates: the share of messages that were heard with more than their words."""
BYTES = "bytes a message"
"""A measure of a discussion in which messages carry more than words: of a message that was heard, in its form."""
THOUGHTS, MONEY = "tokens of thoughts", "money"
"""A measure of a discussion with models that think, and one of a discussion whose prices are known."""
MODELS = ("model", "hosted")
"""The sources of messages that a model made."""


class Cost(BaseModel):
    """The cost of a discussion's calls."""

    calls: int = 0
    tokens_in: int = 0
    tokens_reused: int = 0
    """Tokens of `tokens_in` that came from the prefix cache, ours or a server's."""
    tokens_out: int = 0
    tokens_thoughts: int = 0
    """Tokens that models thought before their replies, besides `tokens_out`."""
    uncounted: int = 0
    """Calls whose tokens the server did not report; the other fields lack them, and are null where they are printed."""

    @field_serializer("tokens_in", "tokens_reused", "tokens_out", "tokens_thoughts")
    def _reported(self, tokens: int) -> int | None:
        return None if self.uncounted else tokens

    @property
    def tokens(self) -> str:
        """The tokens in words, with the number of calls whose tokens are unknown."""
        if self.uncounted == self.calls > 0:
            return "tokens not reported"
        lacks = f" (not reported for {counted(self.uncounted, 'call')})" if self.uncounted else ""
        thought = f", {counted(self.tokens_thoughts, 'token')} of thoughts" if self.tokens_thoughts else ""
        reused = f" ({self.tokens_reused:,} of them reused)" if self.tokens_reused else ""
        read = f"{counted(self.tokens_in, 'token')} read{reused}"
        return f"{read}, {counted(self.tokens_out, 'token')} written{thought}{lacks}"

    @property
    def total(self) -> int:
        """All tokens that were read, thought and written."""
        return self.tokens_in + self.tokens_thoughts + self.tokens_out

    def add(self, message: Message) -> None:
        """Add the call that made a message, if a model made it."""
        if message.source in MODELS:
            self.calls += 1
            self.uncounted += "tokens_out" not in message.stats
            for name in ("tokens_in", "tokens_reused", "tokens_out", "tokens_thoughts"):
                setattr(self, name, getattr(self, name) + int(message.stats.get(name, 0)))


def summed(costs: Iterable[Cost]) -> Cost:
    """Return the cost of several discussions together."""
    several = [*costs]
    return Cost(**{name: sum(getattr(each, name) for each in several) for name in Cost.model_fields})


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
        if message.source not in MODELS:  # no model computed it
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
    """Return how many positions a call computed: those read and not reused, latent steps, thoughts, and the reply."""
    computed = ("tokens_in", "thoughts", "tokens_thoughts", "tokens_out")
    return sum(message.stats.get(name, 0) for name in computed) - message.stats.get("tokens_reused", 0)


class Price(Checked):
    """The price of a model's tokens per million, in any currency."""

    model: str = Field(min_length=1)
    read: float = Field(alias="in", ge=0, allow_inf_nan=False)
    written: float = Field(alias="out", ge=0, allow_inf_nan=False)
    """Also of thoughts."""
    cached: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Of tokens from the server's cache; None: as `read`."""


Prices = Mapping[str, Price]
"""Prices by the name of the model."""


def read_prices(path: Path | str) -> dict[str, Price]:
    """Read a CSV file with the columns model, in, out, and cached if cached tokens have a different price.

    Raises:
        UsageError: the file cannot be read, or a row is not a price.
    """
    name = f"prices file {str(path)!r}"
    try:
        table = csv.DictReader(text_of(path).splitlines(), skipinitialspace=True)
        rows, columns = [*table], [*(table.fieldnames or ())]
    except (OSError, ValueError, csv.Error) as error:
        raise UsageError(f"{name} cannot be read: {error}; expected a CSV file: model,in,out") from error
    if not rows or not {"model", "in", "out"} <= {*columns} or any(None in row for row in rows):
        found = f"{counted(len(rows), 'row')} under {shortened(', '.join(columns)) or 'no header'}"
        raise UsageError(
            f"{name} has {found}; expected the columns model, in, out, and optionally cached, and rows of them"
        )
    try:
        prices = [Price.model_validate({str(key): cell for key, cell in row.items() if cell}) for row in rows]
    except UsageError as error:
        raise UsageError(f"{name}: {error}; expected the columns model, in, out, and optionally cached") from error
    return {price.model: price for price in prices}


def money(messages: Sequence[Message], model_of: Callable[[str], str], prices: Prices) -> float | None:
    """Return the price of calls; None if a server did not report the tokens of one. `model_of` names an agent's model.

    A model is found by its whole name (`hosted:openai:gpt-5`), or without `hosted:` and the provider. Local models
    without a price cost nothing.

    Raises:
        UsageError: a hosted model has no price.
    """
    total = 0.0
    for message in messages:
        name, stats = model_of(message.agent), message.stats
        names = (name, name.removeprefix("hosted:"), name.removeprefix("hosted:").partition(":")[2])
        price = next((prices[each] for each in names if each in prices), None)
        if message.source not in MODELS or (price is None and message.source == "model"):
            continue
        if price is None:
            raise UsageError(f"the price table has no model {name!r}; it has: {', '.join(prices) or 'none'}; add a row")
        if "tokens_out" not in stats:
            return None
        reused, written = stats.get("tokens_reused", 0), stats["tokens_out"] + stats.get("tokens_thoughts", 0)
        cached = price.read if price.cached is None else price.cached
        total += (stats["tokens_in"] - reused) * price.read + reused * cached + written * price.written
    return total / 1e6


class Hearings(NamedTuple):
    """Counts of a discussion: heard messages of other agents, those with a payload, and all bytes."""

    times: float
    latent: float
    nbytes: float


def hearings(prompts: Sequence[Asked]) -> Hearings:
    """Return the counts of newly heard messages in last attempts."""
    last = {prompt.place[:-1]: prompt.heard for prompt in sorted(prompts, key=lambda prompt: prompt.attempt)}
    new = [[each for each in heard if each["new"]] for heard in last.values()]
    times = sum(len({each["place"] for each in heard}) for heard in new)
    latent = sum(len({each["place"] for each in heard if each["form"] != "words"}) for heard in new)
    return Hearings(times, latent, sum(each["nbytes"] for heard in new for each in heard))


def payload_measures(messages: Sequence[Message], prompts: Sequence[Asked], *, escalates: bool) -> dict[str, float]:
    """Return the mean bytes of a heard message if any carried some, and of escalating runs the share of latent ones."""
    known = hearings(prompts)
    if not known.times or not any("carried_bytes" in each.stats for each in messages):
        return {}
    return {BYTES: known.nbytes / known.times} | ({LATENT: known.latent / known.times} if escalates else {})
