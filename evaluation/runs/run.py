"""A run: what it is, the records of its discussions, and its folder, if it is kept in one.

RUN/log.jsonl           what happened (see `log`)
RUN/payloads/           what lay under the messages
RUN/judged/             the run in which a model judged the answers, if one did
RUN/checkpoints.sqlite  where discussions stand that are not over
"""

from __future__ import annotations

import logging
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from sottovoce.bounds import MOST
from sottovoce.channels.store import PayloadRef, PayloadStore
from sottovoce.errors import RecordError, UsageError, command
from sottovoce.evaluation.runs.events import Asked, Event, Kept, from_json, to_json
from sottovoce.evaluation.runs.head import Head
from sottovoce.evaluation.runs.log import LOCK, LOG, Log, read
from sottovoce.evaluation.runs.record import Cost, Record, abstains
from sottovoce.evaluation.runs.results import Result
from sottovoce.evaluation.runs.retrieved import OF_RETRIEVAL, measured
from sottovoce.evaluation.runs.saver import CHECKPOINTS
from sottovoce.nodes.question import Question, question_id
from sottovoce.nodes.state import JSON
from sottovoce.retrievers.trec import Qrels, bare

LOGGER = logging.getLogger(__name__)
PAYLOADS = "payloads"
Counted = Annotated[int, Field(ge=0, le=MOST)]
Key = tuple[str, int]
"""A discussion: the question's id, and the seed."""
Status = Literal["running", "done", "stopped"]
Observer = Callable[[Record, Event], None]
"""Is shown each event, after record and log took it."""


class Counts(BaseModel):
    """How the discussions of a run ended; the log's last line has it, so that runs are listed without the rest."""

    discussions: Counted = 0
    done: Counted = 0
    failed: Counted = 0
    abstained: Counted = 0
    scored: Counted = 0
    """Those that were done and have a target."""
    score: float = Field(default=0.0, ge=0, le=MOST)
    """Of all scored ones together."""


class Run:
    """A run, read from its folder or going on; the one way in which anything enters record and log."""

    def __init__(self, head: Head, questions: Sequence[Question] = (), folder: Path | None = None) -> None:
        """A run in which nothing happened yet. In a folder it is begun by `begin`, and read by `load_run`."""
        self.head, self.folder = head, folder
        self.records: dict[Key, Record] = {}
        self.notes: list[str] = []
        """What a reader must know, e.g. that the log's last line was cut off."""
        self.status: Status = "running"
        self.verdicts: dict[Key, float] = {}
        """What a judge said of answers, 1 for right, where one was asked (see `judging`)."""
        self.qrels: Qrels | None = None
        """Judgments of passages in the place of the questions' own, as a command was given them."""
        self.why = ""
        """Why it was stopped."""
        self._log: Log | None = None
        self.saver: JSON = {"kind": "sqlite", "threads": ""}
        """Which kind holds its checkpoints, and what the names of its threads begin with there."""
        self.lines = 0
        """Of the log it was read from."""
        for question in questions:
            self._add(question)

    def _add(self, question: Question) -> None:
        for seed in self.head.seeds:
            key = (question_id(question), seed)
            if key in self.records:
                raise UsageError(f"two questions have the id {key[0]!r}; give each its own")
            head = self.head
            settings = {**head.settings, "seed": seed}
            about: dict[str, Any] = {"versions": head.versions, "models": head.models}  # Any: fields of the record
            self.records[key] = Record(
                scheme=head.scheme, settings=settings, question=question, seed=seed, origin=head.origin, **about
            )

    @classmethod
    def begin(cls, head: Head, questions: Sequence[Question], folder: Path | None) -> Run:
        """A new run, in a new folder unless that is None.

        Raises:
            UsageError: there is a run in the folder already, or two questions have one id.
            RecordError: the folder cannot be written.
        """
        run = cls(head, questions, folder)
        if folder is not None:
            if (folder / LOG).exists():
                raise UsageError(
                    f"{str(folder)!r} holds a run already; choose another folder, or go on with it by "
                    f"{command('runs', 'resume', str(folder))}"
                )
            run._log = Log(folder, new=True)
            LOGGER.info("keeps the run in %s", folder)
            try:
                run.write({"line": "run", **head.model_dump(mode="json")})
                run.write(*({"line": "question", "question": question} for question in questions))
            except RecordError:  # a log without a run in it would be in the way of the next try
                run.discard()
                raise
        return run

    @property
    def only(self) -> Record:
        """The record of a run that is a single discussion."""
        (record,) = self.records.values()
        return record

    @property
    def unfinished(self) -> list[Key]:
        """The discussions without a decision; failed ones are tried again."""
        return [key for key, record in self.records.items() if record.status != "done"]

    @property
    def spoken(self) -> bool:
        """Whether anybody said anything."""
        return any(record.messages for record in self.records.values())

    @property
    def cost(self) -> Cost:
        """What all its calls took so far."""
        costs = [record.cost for record in self.records.values()]
        return Cost(**{name: sum(getattr(each, name) for each in costs) for name in Cost.model_fields})

    @property
    def counts(self) -> Counts:
        """How its discussions ended so far."""
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
        """What is asked, each once."""
        return [record.question for (_, seed), record in self.records.items() if seed == self.head.seeds[0]]

    def results(self) -> list[Result]:
        """What each discussion that ended came to."""
        ended = {key: record for key, record in self.records.items() if record.status in ("done", "failed")}
        return [self._judged(key, self._looked_up(record)) for key, record in ended.items()]

    def judge_passages(self, qrels: Qrels) -> None:
        """Measure retrieval by these judgments.

        Raises:
            UsageError: they are of other questions.
        """
        if not any(bare(question) in qrels for question, _ in self.records):
            known = next((question for question, _ in self.records), "")
            raise UsageError(f"the qrels judge {next(iter(qrels), 'nothing')!r}; expected questions such as {known!r}")
        self.qrels = qrels

    def _looked_up(self, record: Record) -> Result:
        """Return a result, its retrieval measured by the judgments that were given, if any were."""
        result = record.result()
        if self.qrels is None:
            return result
        gold = self.qrels.get(bare(result.question), {})
        own = {name: value for name, value in result.measures.items() if name not in OF_RETRIEVAL}
        return replace(result, measures={**own, **measured(gold, record.messages)})

    def _judged(self, key: Key, result: Result) -> Result:
        """With what a judge said of it; of abstentions it is not asked, and they are wrong."""
        said = self.verdicts.get(key, 0.0 if self.verdicts and result.abstained else None)
        return result if said is None else replace(result, measures={**result.measures, "judged": said})

    def store(self) -> PayloadStore:
        """The payloads of its messages."""
        return PayloadStore(self.folder / PAYLOADS if self.folder else None)

    # What happens

    def asked(self, key: Key, event: Asked) -> None:
        """An agent is asked."""
        self.records[key].take(event)
        self.write({"line": "asked", "of": key, **to_json(event)})

    def step(self, key: Key, task: str, events: list[Kept], seconds: float) -> None:
        """A task's writes were committed."""
        self.records[key].step(task, events, seconds)
        made = {"task": task, "seconds": seconds, "events": [to_json(event) for event in events]}
        self.write({"line": "step", "of": key, **made})

    def failed(self, key: Key, error: str, seconds: float, *, outside: bool = False) -> None:
        """A discussion ended without a decision, by a cause `outside` of scheme and protocol or not."""
        self.records[key].fail(error, seconds, outside=outside)
        cause = {"outside": True} if outside else {}
        self.write({"line": "failed", "of": key, "error": error, "seconds": seconds, **cause})

    def anew(self, key: Key) -> Record:
        """A discussion begins again, whatever was logged of it."""
        record = self.records[key] = self.records[key].anew()
        self.write({"line": "again", "of": key})
        return record

    def keep_in(self, kind: str) -> None:
        """Discussions go on from checkpoints of this kind; a database holds those of many runs.

        Raises:
            UsageError: what is not over was begun with checkpoints that lie elsewhere.
        """
        if "postgres" not in (kind, self.saver["kind"]) or kind == self.saver["kind"]:
            return  # in memory nothing is kept that another kind would lack
        if any(self.records[key].tasks for key in self.unfinished):
            option = "--saver postgresql://USER@HOST/DATABASE" if kind != "postgres" else "no --saver"
            raise UsageError(
                f"the checkpoints of run {str(self.folder)!r} are in {self.saver['kind']}; go on with {option}"
            )
        self.saver = {"kind": kind, "threads": f"{uuid.uuid4().hex}/" if kind == "postgres" else ""}
        self.write({"line": "saver", **self.saver})

    def end(self, why: str = "") -> None:
        """The run is over, or stopped for a reason."""
        self.status, self.why = ("stopped" if why or self.unfinished else "done"), why
        told: JSON = {"why": why, "nbytes": self.nbytes, "counts": self.counts.model_dump()}
        if self._log is not None:
            told["digest"] = self._log.digest
        self.write({"line": self.status, **told})

    @property
    def nbytes(self) -> int:
        """Of all payloads, each file once."""
        return sum({ref.sha256: ref.nbytes for ref in self._payloads()}.values())

    def _payloads(self) -> Iterator[PayloadRef]:
        for record in self.records.values():
            yield from (message.payload for message in record.messages if message.payload)

    def write(self, *lines: JSON) -> None:
        """Add lines to the log, if there is one. Errors: see `Log.write`."""
        if self._log is not None:
            self._log.write(lines)

    def sync(self) -> None:
        """Wait until the disk has the log."""
        if self._log is not None:
            self._log.sync()

    def close(self) -> None:
        """Let go of the folder."""
        for record in self.records.values():
            record.status = "stopped" if record.status == "running" else record.status
        if self._log is not None:
            self._log.close()
            self._log = None

    def discard(self) -> None:
        """Remove the folder of a run in which nobody spoke."""
        self.close()
        if self.folder is not None:
            for name in (LOG, LOCK, *CHECKPOINTS):
                (self.folder / name).unlink(missing_ok=True)
            shutil.rmtree(self.folder / PAYLOADS, ignore_errors=True)
            if not any(self.folder.iterdir()):
                self.folder.rmdir()

    def resume(self) -> None:
        """Take hold of the folder again, and cut off what a killed process left of a line. Errors: see `Log`.

        Raises:
            RecordError: another process went on with it since it was read.
        """
        assert self.folder is not None, "read from a folder"
        self._log = Log(self.folder)
        LOGGER.info("goes on with the run in %s", self.folder)
        lines, sound, cut = read(self.folder)
        if len(lines) != self.lines:
            self.close()
            raise RecordError(f"run {str(self.folder)!r} went on in another process meanwhile; try again")
        if cut:
            self._log.cut(sound)
        self.status = "running"
        self.write({"line": "resumed"})

    def replay(self, line: JSON) -> None:
        """Take a line of the log."""
        if line["line"] == "question":
            self._add(line["question"])
            return
        if line["line"] in ("stopped", "resumed", "done"):
            now: dict[str, Status] = {"stopped": "stopped", "resumed": "running", "done": "done"}
            self.status, self.why = now[line["line"]], line.get("why", "")
            return
        if line["line"] == "saver":
            self.saver = {"kind": line["kind"], "threads": line["threads"]}
            return
        record = self.records[line["of"][0], line["of"][1]]
        match line["line"]:
            case "asked":
                record.take(from_json({name: value for name, value in line.items() if name not in ("line", "of")}))
            case "step":
                record.step(line["task"], list(map(from_json, line["events"])), line["seconds"])
            case "again":
                self.records[line["of"][0], line["of"][1]] = record.anew()
            case "failed":
                record.fail(line["error"], line["seconds"], outside=line.get("outside", False))
