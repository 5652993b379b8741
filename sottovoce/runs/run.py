"""A run: a fold over the lines of its log. Results, measures and cost are read from it, without a model.

RUN/log.jsonl   the log (see `log`)
RUN/payloads/   the payloads of the messages
RUN/judged/     the run in which a model judged the answers, if any; further ones are judged-2, judged-3, ...
"""

from __future__ import annotations

import hashlib
import logging
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import count, takewhile
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from pydantic import ValidationError

from sottovoce.channels.store import PayloadStore
from sottovoce.core.any_types import JSON
from sottovoce.core.errors import NotInstalled, RecordError, SottovoceError, StepError, UsageError, command
from sottovoce.core.files import bytes_of
from sottovoce.core.text import shortened
from sottovoce.core.validation import first_wrong, shown
from sottovoce.nodes.question import Question, content_of, question_id, same_questions
from sottovoce.prompts import kinds
from sottovoce.runs.cost import Cost, read_prices, summed
from sottovoce.runs.log import (
    AgainLine,
    ClosingLine,
    Count,
    Counts,
    Decided,
    Event,
    Key,
    Line,
    Opened,
    QuestionLine,
    ResumedLine,
    RunLine,
    StepLine,
    check,
    check_version,
    checked_line,
    damaged,
    encoded,
    lacking,
)
from sottovoce.runs.manifest import RunManifest, wrong_settings
from sottovoce.runs.record import COLUMNS, DiscussionRecord, Result, Results, abstains
from sottovoce.runs.run_directory import ALTERED, LOG, REPAIR, Log, altered, first_line, in_use, lines_of

LOGGER = logging.getLogger(__name__)
PAYLOADS = "payloads"
JUDGED = "judged"
"""The directory of a judge's first run, in the run's directory; also the measure that its verdicts are."""
VERDICT_ID = re.compile(r"(-?\d{1,16}):")
"""The beginning of a question's id in a judge's run: the seed of the discussion whose answer is judged."""
Status = Literal["running", "done", "stopped"]
Observer = Callable[[DiscussionRecord, Event], None]
"""A callback for each event, called after the record and the log have it."""

DIGEST = re.compile("[0-9a-f]{12}")
"""The id of a question in a file that gives it none."""
BEGINNING = 40  # characters of such a question in a list


def names(records: Iterable[DiscussionRecord]) -> dict[str, str]:
    """Return for each question of a file whose id is a digest: its row among the taken ones, and its beginning."""
    texts = {question_id(each.question): each.question["question"] for each in records if each.origin}
    rows = ((row, name, shortened(text, BEGINNING)) for row, (name, text) in enumerate(texts.items(), 1))
    return {name: f"row {row}: {begin}".replace("`", "'") for row, name, begin in rows if DIGEST.fullmatch(name)}


class Run:
    """A run, in progress or read from its directory. Each event enters its records and becomes a line of its log."""

    def __init__(self, manifest: RunManifest, questions: Sequence[Question] = (), folder: Path | None = None) -> None:
        """Make a run without messages. `start` starts a run in a directory, and `load_run` reads one from there."""
        self.manifest, self.folder = manifest, folder
        self.records: dict[Key, DiscussionRecord] = {}
        self.notes: list[str] = []
        """Remarks for the reader, e.g. that the log's last line was cut off."""
        self.status: Status = "running"
        self.verdicts: dict[str, dict[Key, float]] = {}
        """The verdicts of LLM judges on the answers, 1 for right, by measure (see `analysis.scorers`)."""
        self.why = ""
        """The reason why it was stopped."""
        self._log: Log | None = None
        self._own_payloads = False
        self.lines = self.size = 0
        """Number and bytes of the lines of the log that it was read from."""
        for question in questions:
            self._add_question(question)

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

    # The fold

    def add(self, line: JSON) -> Line:
        """Write a line to the log, if there is one, and apply it; return it by its type. Errors: see `write`."""
        (typed,) = self.write(line)
        self.apply(typed)
        return typed

    def write(self, *lines: JSON) -> list[Line]:
        """Check lines and append them to the log, if there is one.

        Raises:
            StepError: a reader of the log would refuse one of them; nothing is written.
            RecordError: the log cannot be written.
        """
        data = [encoded(line) for line in lines]
        try:
            typed = list(map(check, data))
            if why := next(filter(None, map(self.misfit, typed)), ""):
                raise ValueError(why)
        except ValueError as error:
            raise StepError(f"it cannot be saved: {error}") from error
        if self._log is not None and lines:
            self._log.write(b"".join(data))
        return typed

    def apply(self, line: Line) -> None:
        """Apply a line of the log."""
        match line:
            case RunLine():
                pass
            case QuestionLine():
                self._add_question(line.question)
            case ResumedLine():
                self.status, self.why = "running", ""
            case ClosingLine():
                self.status, self.why = line.line, line.why
            case AgainLine():
                self.records[line.of] = self.records[line.of].restarted()
            case _:
                self.records[line.of].apply(line)

    def read_on(self) -> set[Key]:
        """Apply the lines that its log gained since the last reading; return the discussions that changed.

        Raises:
            RecordError: there is no log, or a line is damaged or contradicts an earlier line.
        """
        assert self.folder is not None, "read from a folder"
        changed, notes = set[Key](), list[str]()
        for data, _ in lines_of(self.folder, self.lines, self.size):
            line = checked_line(data, self.lines + 1, self.folder, self.manifest)
            if why := self.misfit(line) or self._wrong_opening(line):
                raise damaged(self.folder, self.lines + 1, why)
            if isinstance(line, StepLine) and (line.task in (said := self.records[line.of]).steps or said.decision):
                notes = [f"{ALTERED}: step {shown(line.task)} of {shown(line.of)} occurs twice; {REPAIR}"]
            try:
                self.apply(line)
            except (SottovoceError, ValueError, KeyError, TypeError, IndexError) as error:
                why = f"it does not fit the lines before it ({shown(str(error))})"
                raise damaged(self.folder, self.lines + 1, why) from error
            self.lines, self.size = self.lines + 1, self.size + len(data)
            changed |= {line.of} if hasattr(line, "of") else set()
        closed = self.status != "running" and altered(self.folder)
        self.notes = [*dict.fromkeys([*self.notes, *(closed or notes)])]
        return changed

    def _add_question(self, question: Question) -> None:
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

    def misfit(self, line: Line) -> str:
        """Return how a line contradicts the manifest or the questions; "" if it does not."""
        if isinstance(line, QuestionLine):
            target = line.question.get("target")
            return "" if target is None else _wrong_answer(target, line.question, "the target")
        if isinstance(line, (RunLine, ResumedLine, ClosingLine)):
            return ""
        if line.of not in self.records:
            return f"of is {shown(line.of)}: expected a question of an earlier line, under one of the seeds"
        for event in getattr(line, "events", ()):
            if isinstance(event, Decided) and (taken := COLUMNS.intersection(event.decision.get("measures", ()))):
                return f"the measure {min(taken)!r} has the name of a column of results; rename it"
            counted = event.votes if isinstance(event, Count) else ()
            for vote in event.decision["votes"] if isinstance(event, Decided) else counted:
                if why := _wrong_answer(vote["answer"], self.records[line.of].question):
                    return why
        return ""

    def _wrong_opening(self, line: Line) -> str:
        """Return the error in the settings of an opening that was read; this process checked its own settings."""
        openings = (event for event in getattr(line, "events", ()) if isinstance(event, Opened))
        wrong = (wrong_settings(self.manifest.scheme, event.settings) for event in openings)
        return next((f"opened.{why}" for why in wrong if why), "")

    def restart(self, key: Key) -> None:
        """Restart a discussion: drop its record."""
        self.add({"line": "again", "of": key})

    def fail(self, key: Key, error: str, seconds: float, *, outside: bool = False) -> None:
        """Record that a discussion ended without a decision; `outside`: the cause is not the scheme or protocol."""
        cause = {"outside": True} if outside else {}
        self.add({"line": "failed", "of": key, "error": error, "seconds": seconds, **cause})

    def end(self, why: str = "") -> None:
        """Record that the run is done, or that it stopped for the reason `why`."""
        self.status, self.why = ("stopped" if why or self.unfinished else "done"), why
        if self._log is not None and self._log.untouched:  # it was resumed, and a limit was reached already
            return
        line: JSON = {"line": self.status, "why": why, "nbytes": self.nbytes, "counts": self.counts.model_dump()}
        self.add(line if self._log is None else {**line, "digest": self._log.digest})

    def resume(self) -> None:
        """Open the log again, to write on after its last whole line. Errors: see `Log`.

        Raises:
            RecordError: another process continued the run since it was read.
        """
        assert self.folder is not None, "read from a folder"
        self._log, lines = Log(self.folder), self.lines
        LOGGER.info("resuming the run in %s", self.folder)
        self.read_on()
        if self.lines != lines:
            self.close()
            raise RecordError(f"run {str(self.folder)!r} was continued by another process meanwhile; try again")
        self._log.cut(self.size)
        self.status = "running"

    def sync(self) -> None:
        """Wait until the log is on the disk."""
        if self._log is not None:
            self._log.sync()

    def close(self, *, discard: bool = False) -> None:
        """Close the log and release its lock; mark running discussions as stopped.

        `discard` deletes the files of a run that this process started and that has no messages. A resumed run stays.
        """
        for record in self.records.values():
            record.status = "stopped" if record.status == "running" else record.status
        log, self._log = self._log, None
        if log is None:
            return
        if discard and log.new and self._own_payloads:
            shutil.rmtree(log.path.parent / PAYLOADS, ignore_errors=True)
        log.close(discard=discard and log.new)

    # What it says

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
        return summed(record.cost for record in self.records.values())

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

    @property
    def nbytes(self) -> int:
        """Bytes of the payloads of all messages, however many of them are equal."""
        refs = [message.payload for record in self.records.values() for message in record.messages]
        return sum(ref.nbytes for ref in refs if ref)

    def questions(self) -> list[Question]:
        """Return the questions, each once."""
        return [record.question for (_, seed), record in self.records.items() if seed == self.manifest.seeds[0]]

    @cached_property
    def names(self) -> dict[str, str]:
        """For each question of a file whose id is a digest: its row among those that were taken, and its beginning."""
        return names(self.records.values())

    def clusters(self) -> dict[str, str]:
        """Return for each question id the first one with the same content; discussions of both are a cluster."""
        return same_questions({question_id(question): content_of(question) for question in self.questions()})

    def price(self, file: Path | None) -> None:
        """Show the models' costs in results and screens, by the prices in a CSV file if one is given."""
        prices = read_prices(file) if file else {}
        for record in self.records.values():
            record.prices = prices

    def results(self) -> Results:
        """Return the result of each discussion that ended."""
        ended = {key: record for key, record in self.records.items() if record.status in ("done", "failed")}
        return Results(self._with_verdicts(key, record.result()) for key, record in ended.items())

    def _with_verdicts(self, key: Key, result: Result) -> Result:
        """Add the judges' verdicts to a result; abstentions are wrong without asking them."""
        said = {name: given.get(key, 0.0 if result.abstained else None) for name, given in self.verdicts.items()}
        known = {name: verdict for name, verdict in said.items() if verdict is not None}
        return replace(result, measures={**result.measures, **known}, shares=result.shares | {*known})

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


def _wrong_answer(answer: str | None, question: Question, subject: str = "a vote's answer") -> str:
    """Return the error in an answer, or ""."""
    kind = kinds.kind_of(question)
    try:
        kinds.same(answer, answer, kind)
    except ValueError:
        return f"{subject} is {shown(answer)}: expected one of the kind {kind}"
    return ""


# Reading


def load_run(folder: Path | str) -> Run:
    """Read a run from its directory; no model is needed.

    Raises:
        RecordError: there is no run, it is damaged, or another version wrote it.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)  # first: lines of another version may look damaged
    written = in_use(folder)  # before it is read: its writer may end meanwhile
    run = Run(manifest, folder=folder)
    run.notes += manifest.missing()
    run.read_on()
    cut = (folder / LOG).stat().st_size - run.size
    if (cut or run.status == "running") and not (written or in_use(folder)):
        if cut:
            run.notes.append(f"the last line of the log was cut off ({cut} bytes); what it recorded is run again")
        run.status = "stopped" if run.status == "running" else run.status
        run.close()
    judges = judge_runs(folder)
    for judge in judges:
        model, first = (each.manifest.settings["model"] for each in (judge, judges[0]))
        measure = JUDGED if model == first else f"{JUDGED} by {', '.join(model)}"
        run.verdicts.setdefault(measure, {}).update(verdicts(judge))
    return run


def judge_runs(folder: Path) -> list[Run]:
    """Return the judges' runs on the answers of a run, in the order of their start."""
    return list(map(load_run, takewhile(lambda place: (place / LOG).exists(), judge_folders(folder))))


def judge_folders(folder: Path) -> Iterator[Path]:
    """Yield the folders for judges' runs; further answers are judged in a further run."""
    return (folder / (JUDGED if number == 1 else f"{JUDGED}-{number}") for number in count(1))


def read_manifest(folder: Path) -> RunManifest:
    """Return the manifest of a run, without the rest of its log. Errors: see `load_run`."""
    first = first_line(folder)
    check_version(first, folder)
    try:  # not from the checked line: names of files that are not text are as they were written
        manifest = RunManifest.model_validate(first)
        why = wrong_settings(manifest.scheme, manifest.settings)
    except NotInstalled as error:
        raise lacking(folder, manifest, error) from error
    except ValidationError as error:
        why = first_wrong(error, "it")
    if why:
        raise damaged(folder, 1, why)
    return manifest


def verdicts(judge_run: Run) -> dict[Key, float]:
    """Return the verdicts that could be read from a judge's replies, 1 for right, by the judged discussion."""
    said = dict[Key, float]()
    for (name, _), record in judge_run.records.items():
        if record.decision is None:
            continue
        if (of := VERDICT_ID.match(name)) is None:
            raise RecordError(
                f"run {str(judge_run.folder)!r} is damaged: {name!r} is not the id of an answer; judge the run again"
            )
        if (answer := record.decision["answer"]) is not None:
            said[name[of.end() :], int(of[1])] = float(answer == "yes")
    return said


def verdict_id(key: Key) -> str:
    """Return the id of the question that asks a judge whether a discussion's answer is right."""
    return f"{key[1]}:{key[0]}"
