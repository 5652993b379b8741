"""Checks of payloads: each is intact, and fits its message and the model and protocol that the run names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sottovoce.agents.convert import summary
from sottovoce.channels.compress import KEPT, carried_names, is_carried, vectors
from sottovoce.channels.message import Message
from sottovoce.channels.payload import Payload
from sottovoce.channels.store import PayloadRef, PayloadStore
from sottovoce.core.errors import PayloadError
from sottovoce.runs.manifest import AgentModel
from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.run import Key, Run
from sottovoce.verify.findings import Finding, at, differences

WORDS = "nl"


def check_payloads(run: Run, key: Key) -> Iterator[Finding]:
    """Check all payloads of a discussion."""
    store, record = run.store(), run.records[key]
    for message in record.messages:
        for what, found, expected in _message(message, record, store):
            yield Finding(what, found, expected, at(key, message))


def refs_of(message: Message) -> list[PayloadRef]:
    """Return the payloads that a message names: its own, the one that was measured, and the donors of a probe."""
    return [ref for ref in (message.payload, message.measured, *message.donors) if ref is not None]


Difference = tuple[str, Any, Any]
"""The name of what differs, the value found, and the value expected."""


def _message(message: Message, record: DiscussionRecord, store: PayloadStore) -> Iterator[Difference]:
    model = record.models.get(message.agent) or next(iter(record.models.values()), None)
    if message.source == "model" and message.payload is None:
        yield "the payload", None, "one, as a local model spoke"
    for ref in refs_of(message):
        payload = _read(ref, store)
        if isinstance(payload, PayloadError):
            yield "the payload", str(payload), "the file that the message names"
            continue
        yield from differences(ref.to_dict(), _fresh(payload, store, ref), "the payload's address")
        if ref == message.payload:
            yield from _label(message, payload, record.settings, model)
            yield from _stats(message, payload)


def _read(ref: PayloadRef, store: PayloadStore) -> Payload | PayloadError:
    """Read a payload from its file, verified; a copy in memory would prove nothing."""
    try:
        (data,) = store.mget([ref.sha256])
        return Payload.from_bytes(data) if data is not None else PayloadError(f"{ref.sha256} is missing")
    except PayloadError as error:
        return error


def _fresh(payload: Payload, store: PayloadStore, ref: PayloadRef) -> Mapping[str, Any]:  # Any: plain JSON
    (data,) = store.mget([ref.sha256])
    assert data is not None, "read above"
    return PayloadRef.of(payload, data).to_dict()


def _label(
    message: Message, payload: Payload, settings: Mapping[str, Any], model: AgentModel | None
) -> Iterator[Difference]:  # Any: plain JSON
    label = payload.label
    if label.text != message.text:
        yield "the text", message.text, label.text
    if label.protocol not in (settings["protocol"], WORDS):
        yield "the payload's protocol", label.protocol, settings["protocol"]
    if model is None:
        yield "the payload's model", label.model, "none, as the run names no local model"
    else:
        told = {"model": label.model, "weights": label.weights, "vocabulary": label.vocabulary}
        named = {name: getattr(model, name) for name in told}
        yield from differences(told, named, "the payload")
    outside = [span for span in payload.spans if not 0 <= span[0] <= span[1] <= len(label.text)]
    if outside:
        yield "the payload's spans", outside[0], f"within the text's {len(label.text)} characters"
    yield from _tokens(payload)


def _tokens(payload: Payload) -> Iterator[Difference]:
    """Check that each tensor has a row per token, and each carried one a row per kept token."""
    n, kept, tensors = len(payload), payload.carrying, payload.tensors
    others = (KEPT, "sparse.covered", "at", "thought_ids")
    whole = [name for name in tensors if not is_carried(name) and name not in others]
    found = {name: len(tensors[name]) for name in whole}
    expected = dict.fromkeys(whole, n)
    if kept is not None and [*kept.tolist()] != sorted({*kept.tolist()} & {*range(n)}):
        yield "the places of the kept tokens", kept.tolist(), f"some of {n}, in order"
    for name in carried_names(tensors):
        try:
            carried = vectors(tensors, name)
        except (RuntimeError, KeyError) as error:  # from torch, if factors and scales do not fit together
            yield f"the tensor {name}", str(error), "parts that fit together"
            continue
        found[name] = 0 if carried is None else carried.shape[-2]
        tokens = n if kept is None else len(kept)
        expected[name] = tokens if payload.positions is None else payload.positions
        if name.startswith("first_"):
            expected[name] = min(1, expected[name])
    yield from differences(found, expected, "the tokens of the tensor")


def _stats(message: Message, payload: Payload) -> Iterator[Difference]:
    """Compare the message's statistics with those that its tensors yield."""
    fresh = summary(payload, message.stats.get("temperature", 0.0))
    yield from differences({name: message.stats.get(name) for name in fresh}, fresh, "the summary")
    read, reused = (message.stats.get(name) for name in ("tokens_in", "tokens_reused"))
    if read is not None and not 0 <= (reused or 0) < read:  # the last token is always computed
        yield "tokens_reused", reused, f"from 0 to {read - 1:g}, fewer than were read"
    out = message.stats.get("tokens_out")
    if out not in (len(payload), len(payload) + 1):  # the token that ends a reply is not part of its text
        yield "tokens_out", out, f"{len(payload)}, or one more that ended it"
