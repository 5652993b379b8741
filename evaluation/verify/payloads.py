"""What lies under each message: whole, of that message, by the model and the protocol that the run names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sottovoce.agents.spoken import summary
from sottovoce.channels.message import Message
from sottovoce.channels.payload import Payload
from sottovoce.channels.store import PayloadRef, PayloadStore
from sottovoce.errors import PayloadError
from sottovoce.evaluation.runs.head import ModelOf
from sottovoce.evaluation.runs.record import Record
from sottovoce.evaluation.runs.run import Key, Run
from sottovoce.evaluation.verify.findings import Finding, at, differences

WORDS = "nl"


def check_payloads(run: Run, key: Key) -> Iterator[Finding]:
    """All payloads of a discussion."""
    store, record = run.store(), run.records[key]
    for message in record.messages:
        for what, found, expected in _message(message, record, store):
            yield Finding(what, found, expected, at(key, message))


Difference = tuple[str, Any, Any]
"""What, found and expected."""


def _message(message: Message, record: Record, store: PayloadStore) -> Iterator[Difference]:
    model = record.models.get(message.agent) or next(iter(record.models.values()), None)
    if message.source == "model" and message.payload is None:
        yield "the payload", None, "one, as a local model spoke"
    for ref in filter(None, (message.payload, message.measured)):
        payload = _read(ref, store)
        if isinstance(payload, PayloadError):
            yield "the payload", str(payload), "the file that the message names"
            continue
        yield from differences(ref.to_dict(), _fresh(payload, store, ref), "the payload's address")
        if ref == message.payload:
            yield from _label(message, payload, record.settings, model)
            yield from _stats(message, payload)


def _read(ref: PayloadRef, store: PayloadStore) -> Payload | PayloadError:
    """From the file, verified; a copy in memory proves nothing."""
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
    message: Message, payload: Payload, settings: Mapping[str, Any], model: ModelOf | None
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
    lengths = {name: len(payload) for name in payload.tensors if name not in ("states", "sparse.covered")}
    found = {name: len(payload.tensors[name]) for name in lengths}
    found |= {} if payload.states is None else {"states": int(payload.states.shape[1])}
    lengths |= {} if payload.states is None else {"states": len(payload)}
    yield from differences(found, lengths, "the tokens of the tensor")


def _stats(message: Message, payload: Payload) -> Iterator[Difference]:
    """The summaries that its tensors come to."""
    fresh = summary(payload, message.stats.get("temperature", 0.0))
    yield from differences({name: message.stats.get(name) for name in fresh}, fresh, "the summary")
    out = message.stats.get("tokens_out")
    if out not in (len(payload), len(payload) + 1):  # the token that ends a reply is none of its text's
        yield "tokens_out", out, f"{len(payload)}, or one more that ended it"
