"""Checks of a run's log, whatever was said: the order of its lines, its digests and its counts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from sottovoce.channels.message import Place
from sottovoce.core.files import bytes_of
from sottovoce.runs.log import JSON, LOG, read
from sottovoce.runs.manifest import digest
from sottovoce.runs.run import PAYLOADS, Key, Run
from sottovoce.verify.findings import Finding, Where, at, differences, of
from sottovoce.verify.payloads import refs_of

CLOSING = ("done", "stopped")
BROKEN = ("again", "failed", "resumed", "stopped")
"""Lines after which the directory may have payloads that no message names."""


def check_folder(run: Run) -> Iterator[Finding]:
    """Check the log's lines against each other, and the payloads against the log."""
    assert run.folder is not None, "read from a folder"
    lines, _, _ = read(run.folder)
    yield from _order(lines)
    yield from _digests(run.folder)
    yield from _closing(run, lines[-1])
    if (found := digest(run.questions())) != run.manifest.questions:
        yield Finding("the digest of all questions", run.manifest.questions, found)
    yield from _orphans(run, lines)


def _order(lines: list[JSON]) -> Iterator[Finding]:
    """Check the order: manifest, questions, discussions; nobody speaks unasked, and nothing follows a decision."""
    asked, decided = set[tuple[Key, Place]](), set[Key]()
    tasks = dict[tuple[Key, str], int]()
    for number, line in enumerate(lines[1:], 2):
        where: Where = (f"line {number} of the log",)
        if line["line"] == "question" and any("of" in each for each in lines[1 : number - 1]):
            yield Finding("a question", "after a discussion began", "before", where)
        if "of" not in line:
            continue
        key: Key = (line["of"][0], line["of"][1])
        if key in decided:
            yield Finding("a discussion goes on", "after its decision", "nothing", (*of(key), *where))
        if line["line"] == "asked":
            asked.add((key, _place(line)))
        if line["line"] == "again":
            tasks = {each: at for each, at in tasks.items() if each[0] != key}
        if line["line"] == "step":
            if before := tasks.get((key, line["task"])):
                yield Finding("a step of the graph", f"a second time (line {before})", "once", (*of(key), *where))
            tasks[key, line["task"]] = number
            for event in line["events"]:
                if event["event"] == "decided":
                    decided.add(key)
                if event["event"] == "said" and event.get("source", "model") in ("model", "hosted"):
                    if (key, _place(event)) not in asked:
                        yield Finding("a message", "said before it was asked for", "after", at(key, _place(event)))


def _place(line: JSON) -> Place:
    return Place(**{name: line.get(name, 0) for name in Place._fields})  # a message may leave out zeros


def _digests(folder: Path) -> Iterator[Finding]:
    """Check the digest in each closing line, of all bytes before it; logs of older versions have none."""
    before = hashlib.sha256()
    for number, (line, data) in enumerate(zip(read(folder)[0], _raw(folder), strict=False), 1):
        told = line.get("digest") if line["line"] in CLOSING else None
        if told is not None and told != before.hexdigest():
            yield Finding("the digest of all lines before", told, before.hexdigest(), (f"line {number} of the log",))
        before.update(data)


def _raw(folder: Path) -> list[bytes]:
    return bytes_of(folder / LOG).splitlines(keepends=True)


def _closing(run: Run, last: JSON) -> Iterator[Finding]:
    """Check the status, counts and bytes in the last line against the records."""
    if last["line"] not in CLOSING:
        return
    where: Where = ("the log's last line",)
    status = "stopped" if last.get("why") or run.unfinished else "done"
    if last["line"] != status:
        yield Finding("the status", last["line"], status, where)
    told = {"nbytes": last.get("nbytes"), **(last.get("counts") or {})}
    counted = {"nbytes": run.nbytes, **run.counts.model_dump()}
    for name, found, expected in differences(told, counted):
        yield Finding(f"the count of {name}", found, expected, where)


def _orphans(run: Run, lines: list[JSON]) -> Iterator[Finding]:
    """Yield payloads that no message names: they may be left from discussions that were removed."""
    if any(line["line"] in BROKEN for line in lines) or lines[-1]["line"] not in CLOSING:
        return
    refs = [ref for each in run.records.values() for said in each.messages for ref in refs_of(said)]
    named = {ref.sha256 for ref in refs}
    for sha256 in run.store().yield_keys():
        if sha256 not in named:
            yield Finding(f"payload {sha256[:12]}", "named by no message", "one that names it", (PAYLOADS,))
