"""Checks of a run directory without a model: its log's order and digests, and its payloads."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sottovoce.channels.message import Message, Place
from sottovoce.channels.payload import Payload
from sottovoce.channels.store import PayloadRef
from sottovoce.core.any_types import JSON, JSONValue
from sottovoce.core.errors import PayloadError
from sottovoce.core.files import bytes_of
from sottovoce.runs.log import Key
from sottovoce.runs.manifest import digest
from sottovoce.runs.run import PAYLOADS, Run
from sottovoce.runs.run_directory import LOG, lines_of

CLOSING = ("done", "stopped")
BROKEN = ("again", "failed", "resumed", "stopped")  # payloads that no message names may be left


@dataclass(frozen=True)
class Finding:
    """A value that contradicts the rest of the run."""

    subject: str
    actual: Any  # Any: whatever is compared, as for `expected`
    expected: Any
    where: str = "the run"

    def __str__(self) -> str:
        return f"{self.where}: {self.subject}: found {_shown(self.actual)}, expected {_shown(self.expected)}"


@dataclass
class Verification:
    """The findings of a verification, with counts, and notes that do not cast doubt on the run."""

    discussions: int
    messages: int
    reruns: int = 0
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def of(key: Key, place: Place | None = None) -> str:
    """Return the place of a discussion, or of a message in it, in words."""
    if place is None:
        return f"question {key[0]}, seed {key[1]}"
    epoch = f", epoch {place.epoch + 1}" if place.epoch else ""
    attempt = f", attempt {place.attempt + 1}" if place.attempt else ""
    return f"{of(key)}, {place.agent}, round {place.round + 1}{epoch}, {place.act}{attempt}"


def differences(actual: JSONValue, expected: JSONValue, name: str = "") -> Iterator[tuple[str, JSONValue, JSONValue]]:
    """Yield where two JSON values differ: the field's path and both values; None if one does not have the field."""
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        for key in sorted(actual.keys() | expected.keys()):
            yield from differences(actual.get(key), expected.get(key), f"{name}.{key}" if name else str(key))
    elif isinstance(actual, list) and isinstance(expected, list) and len(actual) == len(expected):
        for i, pair in enumerate(zip(actual, expected, strict=True)):
            yield from differences(*pair, f"{name}[{i}]")
    elif actual != expected:
        yield name, actual, expected


def _shown(value: JSONValue) -> str:
    text = value if isinstance(value, str) and value.isalnum() else repr(value)
    return text if len(text) <= 120 else f"{text[:100]}... ({len(text)} characters)"


def check_log(run: Run) -> Iterator[Finding]:
    """Check the log's lines against each other, and the payload files against the messages."""
    assert run.folder is not None, "read from a folder"
    lines = [line for _, line in lines_of(run.folder)]
    yield from _order(lines)
    before = hashlib.sha256()
    data = bytes_of(run.folder / LOG).splitlines(keepends=True)
    for number, (line, raw) in enumerate(zip(lines, data, strict=False), 1):  # the last one may be cut off
        if line["line"] in CLOSING and line.get("digest") != before.hexdigest():
            where = f"line {number} of the log"
            yield Finding("the digest of all lines before", line.get("digest"), before.hexdigest(), where)
        before.update(raw)
    if (found := digest(run.questions())) != run.manifest.questions:
        yield Finding("the digest of all questions", run.manifest.questions, found)
    if lines[-1]["line"] not in CLOSING:
        return
    told = {"nbytes": lines[-1].get("nbytes"), **(lines[-1].get("counts") or {})}
    for name, found, expected in differences(told, {"nbytes": run.nbytes, **run.counts.model_dump()}):
        yield Finding(f"the count of {name}", found, expected, "the log's last line")
    if not any(line["line"] in BROKEN for line in lines):
        named = {ref.sha256 for each in run.records.values() for said in each.messages for ref in _refs(said)}
        for sha256 in run.store().keys():
            if sha256 not in named:
                yield Finding(f"payload {sha256[:12]}", "named by no message", "one that names it", PAYLOADS)


def _order(lines: list[JSON]) -> Iterator[Finding]:
    """Check the order: manifest, questions, discussions; nobody speaks unasked, and nothing follows a decision."""
    asked, begun, decided, steps = set[tuple[Key, Place]](), set[Key](), set[Key](), set[tuple[Key, str]]()
    for number, line in enumerate(lines[1:], 2):
        where = f"line {number} of the log"
        if line["line"] == "question" and begun:
            yield Finding("a question", "after a discussion began", "before", where)
        if "of" not in line:
            continue
        key: Key = (line["of"][0], line["of"][1])
        begun.add(key)
        if key in decided:
            yield Finding("a discussion goes on", "after its decision", "nothing", f"{of(key)}, {where}")
        if line["line"] == "asked":
            asked.add((key, _place(line)))
        if line["line"] == "again":
            steps = {step for step in steps if step[0] != key}
        if line["line"] != "step":
            continue
        if (key, line["task"]) in steps:
            yield Finding("a step of the graph", "a second time", "once", f"{of(key)}, {where}")
        steps.add((key, line["task"]))
        for event in line["events"]:
            if event["event"] == "decided":
                decided.add(key)
            by_model = event["event"] == "said" and event.get("source", "model") in ("model", "hosted")
            if by_model and (key, _place(event)) not in asked:
                yield Finding("a message", "said before it was asked for", "after", of(key, _place(event)))


def _place(line: JSON) -> Place:
    return Place(**{name: line.get(name, 0) for name in Place._fields})  # a message may leave out zeros


def _refs(message: Message) -> list[PayloadRef]:
    """Return the payloads that a message names: its own, the one that was measured, and the donors of a probe."""
    return [*message.own_refs, *message.donors]


def check_payloads(run: Run, key: Key) -> Iterator[Finding]:
    """Check all payloads of a discussion: each is intact, and fits its message and the model that the run names."""
    store, record = run.store(), run.records[key]
    for message in record.messages:
        where = of(key, message.place)
        if message.source == "model" and message.payload is None:
            yield Finding("the payload", None, "one, as a local model spoke", where)
        for ref in _refs(message):
            try:
                if (data := store.read(ref.sha256)) is None:  # from its file: a copy in memory would prove nothing
                    raise PayloadError(f"{ref.sha256} is missing")
                payload = Payload.from_bytes(data)
                fresh = PayloadRef.of(payload, data)
            except PayloadError as error:
                yield Finding("the payload", str(error), "the file that the message names", where)
                continue
            different = list(differences(ref.to_dict(), fresh.to_dict(), "the payload's address"))
            if ref == message.payload:
                label = payload.label
                model = record.models.get(message.agent) or next(iter(record.models.values()), None)
                different += differences(message.text, label.text, "the text")
                if label.protocol not in (record.settings["protocol"], "nl"):
                    different.append(("the payload's protocol", label.protocol, record.settings["protocol"]))
                for part in ("model", "weights", "vocabulary"):
                    different += differences(getattr(label, part), getattr(model, part, None), f"the payload's {part}")
            for name, found, expected in different:
                yield Finding(name, found, expected, where)
