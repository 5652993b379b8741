"""A run: its manifest, the records of its discussions, and its directory if it is saved.

RUN/log.jsonl   the event log (see `log`)
RUN/payloads/   the payloads of the messages
RUN/judged/     the run in which a model judged the answers, if any
"""

from __future__ import annotations

import hashlib
import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from sottovoce.channels.store import PayloadRef, PayloadStore
from sottovoce.core.any_types import JSON
from sottovoce.core.errors import RecordError, SottovoceError, StepError, UsageError, command
from sottovoce.core.files import bytes_of
from sottovoce.core.validation import shown
from sottovoce.nodes.question import Question, question_id
from sottovoce.nodes.state import Update
from sottovoce.prompts import kinds
from sottovoce.runs.cost import Cost, read_prices
from sottovoce.runs.events import Asked, Event, LoggedEvent, from_json, to_json
from sottovoce.runs.log import LOG, Log, encoded, read
from sottovoce.runs.log_lines import Counts, wrong_in, wrong_settings
from sottovoce.runs.manifest import RunManifest
from sottovoce.runs.record import DiscussionRecord, abstains
from sottovoce.runs.results import Result, Results

LOGGER = logging.getLogger(__name__)
PAYLOADS = "payloads"
Key = tuple[str, int]
"""A discussion: the question's id, and the seed."""
Status = Literal["running", "done", "stopped"]
Observer = Callable[[DiscussionRecord, Event], None]
"""A callback for each event, called after the record and the log have it."""


def _wrong_answer(answer: str | None, question: Question, subject: str = "a vote's answer") -> str:
    """Return what is wrong with an answer; "" for nothing."""
    kind = kinds.kind_of(question)
    try:
        kinds.same(answer, answer, kind)
    except ValueError:
        return f"{subject} is {shown(answer)}: expected one of the kind {kind}"
    return ""


class Run:
    """A run, read from its directory or in progress; all events enter its records and its log through it."""

    def __init__(self, manifest: RunManifest, questions: Sequence[Question] = (), folder: Path | None = None) -> None:
        """Make a run without events. `start` starts one in a directory, and `load_run` reads one from there."""
        self.manifest, self.folder = manifest, folder
        self.records: dict[Key, DiscussionRecord] = {}
        self.notes: list[str] = []
        """Remarks for the reader, e.g. that the log's last line was cut off."""
        self.status: Status = "running"
        self.verdicts: dict[Key, float] = {}
        """The verdicts of an LLM judge on the answers, 1 for right, if one was asked (see `analysis.scorers`)."""
        self.why = ""
        """The reason why it was stopped."""
        self._log: Log | None = None
        self._own_payloads = False
        self.lines = 0
        """Number of lines of the log that it was read from."""
        for question in questions:
            self._add(question)

    def _add(self, question: Question) -> None:
        for seed in self.manifest.seeds:
            key = (question_id(question), seed)
            if key in self.records:
                raise UsageError(f"two questions have the id {key[0]!r}; give each its own")
            manifest = self.manifest
            settings = {**manifest.settings, "seed": seed}
            about: dict[str, Any] = {"versions": manifest.versions, "models": manifest.models}  # Any: of the record
            self.records[key] = DiscussionRecord(
                scheme=manifest.scheme, settings=settings, question=question, seed=seed, origin=manifest.origin, **about
            )

    @classmethod
    def start(cls, manifest: RunManifest, questions: Sequence[Question], folder: Path | None) -> Run:
        """Start a new run, saved in `folder` unless that is None.

        Raises:
            UsageError: the directory contains a run already, or two questions have the same id.
            RecordError: the directory cannot be written.
            StepError: a question has a value that no saved run may have.
        """
        run = cls(manifest, questions, folder)
        if folder is not None:
            if (folder / LOG).exists():
                raise UsageError(
                    f"{str(folder)!r} already contains a run; choose another folder, or continue that run with "
                    f"{command('runs', 'resume', str(folder))}"
                )
            run._own_payloads = not (folder / PAYLOADS).exists()
            run._log = Log(folder, new=True)
            LOGGER.info("saving the run in %s", folder)
            try:
                run.write({"line": "run", **manifest.model_dump(mode="json")})
                run.write(*({"line": "question", "question": question} for question in questions))
            except SottovoceError:  # an empty log would block the next attempt
                run.close(discard=True)
                raise
        return run

    @property
    def only(self) -> DiscussionRecord:
        """The record of a run's only discussion."""
        (record,) = self.records.values()
        return record

    @property
    def unfinished(self) -> list[Key]:
        """The discussions without a decision; failed ones are included and tried again."""
        return [key for key, record in self.records.items() if record.status != "done"]

    @property
    def spoken(self) -> bool:
        """True if any discussion has a message."""
        return any(record.messages for record in self.records.values())

    @property
    def cost(self) -> Cost:
        """The cost of all its calls so far."""
        costs = [record.cost for record in self.records.values()]
        return Cost(**{name: sum(getattr(each, name) for each in costs) for name in Cost.model_fields})

    @property
    def counts(self) -> Counts:
        """Counts of how its discussions ended so far."""
        records = self.records.values()
        decisions = [record.decision for record in records if record.decision is not None]
        scores = [decision["score"] for decision in decisions if decision["score"] is not None]
        return Counts(
            discussions=len(records),
            done=len(decisions),
            failed=sum(record.status == "failed" for record in records),
            abstained=sum(map(abstains, decisions)),
            scored=len(scores),
            score=sum(scores),
        )

    def questions(self) -> list[Question]:
        """Return the questions, each once."""
        return [record.question for (_, seed), record in self.records.items() if seed == self.manifest.seeds[0]]

    def price(self, file: Path | None) -> None:
        """Let results and screens say what the models cost, by the prices in a CSV file, if one is given."""
        prices = read_prices(file) if file else {}
        for record in self.records.values():
            record.prices = prices

    def results(self) -> Results:
        """Return the result of each discussion that ended."""
        ended = {key: record for key, record in self.records.items() if record.status in ("done", "failed")}
        return Results(self._with_verdict(key, record.result()) for key, record in ended.items())

    def _with_verdict(self, key: Key, result: Result) -> Result:
        """Add the judge's verdict to a result; abstentions are wrong without asking it."""
        said = self.verdicts.get(key, 0.0 if self.verdicts and result.abstained else None)
        return result if said is None else replace(result, measures={**result.measures, "judged": said})

    def card(self) -> JSON:
        """Return the card of a saved run: one page of JSON to publish with its figures.

        Raises:
            RecordError: the run is not over, so its figures could still change.
        """
        if going := sum(record.status not in ("done", "failed") for record in self.records.values()):
            raise RecordError(
                f"run {str(self.folder)!r} has {going} discussions that are not over; "
                f"a card needs a run that is; continue it with {command('runs', 'resume', str(self.folder))}"
            )
        assert self.folder is not None, "read from a folder"
        counts, whole = self.counts, self.results().scores("failed_wrong").values()
        return {
            "format": "sottovoce.card",
            "version": 1,
            **self.manifest.model_dump(mode="json", exclude={"format", "version"}),
            "counts": counts.model_dump(),
            "accuracy": counts.score / counts.scored if counts.scored else None,
            "accuracy_failed_wrong": fmean(whole) if whole else None,
            "cost": self.cost.model_dump(),
            "nbytes": self.nbytes,
            "log": hashlib.sha256(bytes_of(self.folder / LOG)).hexdigest(),
        }

    def store(self) -> PayloadStore:
        """Return the store of the payloads of its messages."""
        return PayloadStore(self.folder / PAYLOADS if self.folder else None)

    # Events

    def record_prompt(self, key: Key, event: Asked) -> None:
        """Record that an agent is asked."""
        self.records[key].take(event)
        self.write({"line": "asked", "of": key, **to_json(event)})

    def record_step(self, key: Key, step: str, events: list[LoggedEvent], update: Update, seconds: float) -> None:
        """Record the events of a step of the graph, and its update, by which a resumed run repeats it.

        Raises:
            StepError: it has a value that no saved run may have; nothing is recorded.
        """
        rest = {name: value for name, value in update.items() if name != "board"}  # the events have the messages
        made = {"task": step, "seconds": seconds, "events": [to_json(event) for event in events], "update": rest}
        self.write({"line": "step", "of": key, **made})
        self.records[key].step(step, events, update, seconds)

    def record_reply(self, key: Key, step: str, reply: str | JSON) -> None:
        """Record a human's reply to a request of a step."""
        self.records[key].replies.setdefault(step, []).append(reply)
        self.write({"line": "replied", "of": key, "task": step, "reply": reply})

    def record_failure(self, key: Key, error: str, seconds: float, *, outside: bool = False) -> None:
        """Record that a discussion ended without a decision; `outside`: the cause is not the scheme or protocol."""
        self.records[key].fail(error, seconds, outside=outside)
        cause = {"outside": True} if outside else {}
        self.write({"line": "failed", "of": key, "error": error, "seconds": seconds, **cause})

    def restart(self, key: Key) -> DiscussionRecord:
        """Restart a discussion: drop what was recorded of it, and return its empty record."""
        record = self.records[key] = self.records[key].restarted()
        self.write({"line": "again", "of": key})
        return record

    def end(self, why: str = "") -> None:
        """Record that the run is done, or that it stopped for the reason `why`."""
        self.status, self.why = ("stopped" if why or self.unfinished else "done"), why
        told: JSON = {"why": why, "nbytes": self.nbytes, "counts": self.counts.model_dump()}
        if self._log is not None:
            if self._log.untouched:  # it was resumed, and a limit was reached already
                return
            told["digest"] = self._log.digest
        self.write({"line": self.status, **told})

    @property
    def nbytes(self) -> int:
        """Bytes of all payloads, each file counted once."""
        return sum({ref.sha256: ref.nbytes for ref in self._payloads()}.values())

    def _payloads(self) -> Iterator[PayloadRef]:
        for record in self.records.values():
            yield from (message.payload for message in record.messages if message.payload)

    def write(self, *lines: JSON) -> None:
        """Add lines to the log, if there is one. Errors: see `Log.write` and `check`."""
        if self._log is not None:
            for line in lines:
                self.check(line)
            self._log.write(lines)

    def check(self, line: JSON) -> None:
        """Check a line by the same model as the reader of a log.

        Raises:
            StepError: the reader would refuse it.
        """
        if why := wrong_in(encoded(line)) or self.unfit(line):
            raise StepError(f"it cannot be saved: {why}")

    def unfit(self, line: JSON) -> str:
        """Return how a line contradicts the manifest or the questions; "" if it does not."""
        if "of" in line and (key := (line["of"][0], line["of"][1])) not in self.records:
            return f"of is {shown(key)}: expected a question of an earlier line, under one of the seeds"
        for event in line.get("events", []):
            if event["event"] == "opened" and (why := wrong_settings(self.manifest.scheme, event["settings"])):
                return f"opened.{why}"
            for vote in event.get("votes") or event.get("decision", {}).get("votes", ()):
                if why := _wrong_answer(vote["answer"], self.records[key].question):
                    return why
        if line["line"] == "question" and (target := line["question"].get("target")) is not None:
            return _wrong_answer(target, line["question"], "the target")
        return ""

    def sync(self) -> None:
        """Wait until the log is on the disk."""
        if self._log is not None:
            self._log.sync()

    def close(self, *, discard: bool = False) -> None:
        """Close the log and release its lock; mark running discussions as stopped.

        `discard` deletes the files of a run that this process began; nobody spoke in it. A resumed run stays.
        """
        for record in self.records.values():
            record.status = "stopped" if record.status == "running" else record.status
        log, self._log = self._log, None
        if log is None:
            return
        if discard and log.new and self._own_payloads:
            shutil.rmtree(log.path.parent / PAYLOADS, ignore_errors=True)
        log.close(discard=discard and log.new)

    def resume(self) -> None:
        """Open the log again, to write on after its last whole line. Errors: see `Log`.

        Raises:
            RecordError: another process continued the run since it was read.
        """
        assert self.folder is not None, "read from a folder"
        self._log = Log(self.folder)
        LOGGER.info("resuming the run in %s", self.folder)
        lines, sound, cut = read(self.folder)
        if len(lines) != self.lines:
            self.close()
            raise RecordError(f"run {str(self.folder)!r} was continued by another process meanwhile; try again")
        if cut:
            self._log.cut(sound)
        self.status = "running"

    def apply(self, line: JSON) -> None:
        """Apply a line of the log."""
        if line["line"] == "question":
            self._add(line["question"])
            return
        if line["line"] in ("stopped", "resumed", "done"):
            now: dict[str, Status] = {"stopped": "stopped", "resumed": "running", "done": "done"}
            self.status, self.why = now[line["line"]], line.get("why", "")
            return
        record = self.records[line["of"][0], line["of"][1]]
        match line["line"]:
            case "asked":
                record.take(from_json({name: value for name, value in line.items() if name not in ("line", "of")}))
            case "step":
                events = list(map(from_json, line["events"]))
                record.step(line["task"], events, line["update"], line["seconds"])
            case "replied":
                record.replies.setdefault(line["task"], []).append(line["reply"])
            case "again":
                self.records[line["of"][0], line["of"][1]] = record.restarted()
            case "failed":
                record.fail(line["error"], line["seconds"], outside=line.get("outside", False))
