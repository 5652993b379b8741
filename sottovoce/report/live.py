"""The runs of a live page: what it lists, what it has changed since it was asked last, and runs that it starts.

Runs, discussions and words have numbers that never change, so that a page can be told what is new. Every change counts
the version up. A run is read when it is first shown; one that is running, at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Lock, Thread

from pydantic import ConfigDict, Field

from sottovoce.channels import PROTOCOLS
from sottovoce.channels.store import PayloadStore
from sottovoce.core.any_types import JSON
from sottovoce.core.errors import SottovoceError, UsageError, nearest
from sottovoce.core.files import bytes_of, opened
from sottovoce.core.text import one_line
from sottovoce.core.validation import Checked, shown
from sottovoce.datasets.question_files import check
from sottovoce.datasets.question_source import dealt_documents
from sottovoce.graphs import SCHEMES, scheme
from sottovoce.graphs.served import client_settings
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import Settings
from sottovoce.prompts.kinds import kind_of
from sottovoce.report.viewer import Tensors, Words, about_run, items, row
from sottovoce.runs import run_directory
from sottovoce.runs.log import Key, damaged
from sottovoce.runs.log import check as check_line
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.run import Run, load_run, read_manifest
from sottovoce.runs.run_directory import LOG, in_use, last_line
from sottovoce.runs.runner import run_all, start_run


class Request(Checked):
    """A request of the page's form: names that this program knows, and texts."""

    model_config = ConfigDict(title="Form")

    scheme: str
    protocol: str
    model: str
    question: str
    documents: list[str] = Field(default=[], max_length=1_000)


class Listed:
    """A run in the list of a page; once it was read, it is read on as its log grows, whoever writes that."""

    def __init__(self, folder: Path, about: JSON) -> None:
        """Take what the page shows of it."""
        self.folder, self.about, self.version = folder, about, 0
        self.run: Run | None = None
        self._store: PayloadStore | None = None  # messages find their payloads while it is open
        self._end = 0

    def read(self, run: Run) -> None:
        """Take the run, read by `load_run`."""
        lines = bytes_of(self.folder / LOG).splitlines(keepends=True)
        self.run, self._store, self._end = run, run.store(), sum(map(len, lines[: run.lines]))

    def grow(self) -> set[Key]:
        """Apply the lines that were written since; return the discussions that changed.

        Raises:
            OSError: the log is gone.
            RecordError: one of the lines is damaged.
        """
        assert self.run is not None, "it was read"
        with opened(self.folder / LOG) as file:
            file.seek(self._end)
            lines = [line for line in file.read().splitlines(keepends=True) if line.endswith(b"\n")]
        changed = {key for line in lines for key in self._apply(self.run, line)}
        if not lines and self.run.status == "running" and not in_use(self.folder):  # its process was killed
            changed = {key for key, record in self.run.records.items() if record.status == "running"}
            self.run.status = "stopped"
            self.run.close()
        return changed

    def _apply(self, run: Run, data: bytes) -> list[Key]:
        try:
            line = check_line(data)
            if why := run.misfit(line):
                raise ValueError(why)
            run.apply(line)
        except (SottovoceError, ValueError, KeyError, TypeError, IndexError) as error:
            raise damaged(self.folder, run.lines + 1, shown(str(error))) from error
        self._end, run.lines = self._end + len(data), run.lines + 1
        return [line.of] if hasattr(line, "of") else []


class Live:
    """The runs of one live page, for one reader; requests come from several threads."""

    def __init__(self, names: Sequence[str]) -> None:
        """List these runs, or without names all saved ones and those that start meanwhile.

        Raises:
            SottovoceError: a run does not exist, or is damaged.
        """
        self.version, self.runs, self.rows = 0, list[Listed](), list[JSON]()
        self.words = Words()
        self._tensors, self._lock, self._busy = Tensors(self.words), Lock(), Lock()
        self._discussions, self._numbers = list[tuple[int, Key]](), dict[tuple[int, Key], int]()
        self._all = not names
        if names:
            from sottovoce.report.comparison import gathered  # late: statistics take seconds

            for name, run in reversed(gathered(names).runs.items()):  # the page shows the last one first
                assert run.folder is not None, "read from there"
                self.runs.append(Listed(run.folder, _about(name, run)))
                self._read(len(self.runs) - 1, run)
        else:
            for folder in run_directory.saved_runs():
                self.runs.append(Listed(folder, _unread(folder)))
            for number, listed in enumerate(self.runs):
                if listed.about["status"] == "running" or number == len(self.runs) - 1:
                    with suppress(SottovoceError):  # its row says that it is damaged
                        self._read(number, load_run(listed.folder))

    def changes(self, since: int) -> JSON:
        """Read on in the logs, and return what changed after a version: rows of runs, and rows of discussions."""
        with self._lock:
            self._follow()
            runs = [[number, each.about] for number, each in enumerate(self.runs) if each.version > since]
            rows = [[number, each] for number, each in enumerate(self.rows) if each["v"] > since]
            return {"version": self.version, "runs": runs, "rows": rows}

    def open(self, number: int) -> None:
        """Read a run whose discussions are to be shown. Errors: see `load_run`."""
        with self._lock:
            if self.runs[number].run is None:
                self._read(number, load_run(self.runs[number].folder))

    def discussion(self, number: int, words: int) -> JSON:
        """Return a discussion: its row, its items, and the words that a page which has `words` of them lacks."""
        with self._lock:
            self.words.learn(self._read_run(self._discussions[number][0]).manifest)
            listed = items(self._record(number), self._tensors)
            return {"row": self.rows[number], "items": listed, "words": [words, self.words.texts[words:]]}

    def search(self, words: str) -> list[int]:
        """Return the discussions in which a text occurs."""
        with self._lock:
            return [number for number in range(len(self.rows)) if self._contains(number, words.lower())]

    def _contains(self, number: int, words: str) -> bool:
        said = items(self._record(number), None)
        return any(words in item["text"].lower() or words in item.get("answer", "").lower() for item in said)

    def _record(self, number: int) -> DiscussionRecord:
        run, key = self._discussions[number]
        return self._read_run(run).records[key]

    def _read_run(self, number: int) -> Run:
        run = self.runs[number].run
        assert run is not None, "its discussions have numbers"
        return run

    def _read(self, number: int, run: Run) -> None:
        self.runs[number].read(run)
        for key in run.records:
            self._change(number, key)
        self._announce(number, _about(self.runs[number].about["name"], run))

    def _change(self, number: int, key: Key) -> None:
        """Give a discussion its row; one that nobody has begun gets none yet."""
        record, at = self._read_run(number).records[key], self._numbers.get((number, key))
        if at is None and record.status == "waiting" and not record.messages:
            return
        self.version += 1
        if at is None:
            at = self._numbers[number, key] = len(self.rows)
            self._discussions.append((number, key))
            self.rows.append({})
        self.rows[at] = {**row(record, number, len(items(record, None))), "v": self.version}

    def _announce(self, number: int, about: JSON) -> None:
        if about != self.runs[number].about or not self.runs[number].version:
            self.version += 1
            self.runs[number].about, self.runs[number].version = about, self.version

    def _follow(self) -> None:
        known = {listed.folder for listed in self.runs}
        for folder in run_directory.saved_runs() if self._all else ():
            if folder not in known:
                with suppress(SottovoceError):  # its first lines are still being written
                    self._add(folder)
        for number, listed in enumerate(self.runs):
            if listed.run is None:
                continue
            try:
                for key in listed.grow():
                    self._change(number, key)
                self._announce(number, _about(listed.about["name"], listed.run))
            except (OSError, SottovoceError) as error:
                self._announce(number, {**listed.about, "status": "gone" if isinstance(error, OSError) else "damaged"})

    def _add(self, folder: Path) -> int:
        if (number := next((n for n, listed in enumerate(self.runs) if listed.folder == folder), None)) is not None:
            return number
        run = load_run(folder)
        self.runs.append(Listed(folder, _about(folder.name, run)))
        self._read(len(self.runs) - 1, run)
        return len(self.runs) - 1

    # Runs that the page starts

    def offer(self) -> JSON:
        """Return the names that the form offers: schemes that ask a question, protocols, and models that are here."""
        from sottovoce.models.sources import CATALOGUE, is_pulled  # late: torch

        schemes = []
        for name in SCHEMES:
            with suppress(SottovoceError):  # a package that is broken
                record = scheme(name)
                if record.games is None and not record.settings().needs():
                    schemes.append(record.command)
        models = ["bundled", *(name for name, each in CATALOGUE.items() if each.speaks and is_pulled(name))]
        return {"schemes": schemes, "protocols": PROTOCOLS.names(), "models": models}

    def start(self, request: Request) -> int:
        """Start a run, and return its number in the list; it goes on in a thread.

        Raises:
            SottovoceError: a name is not among those offered, the question cannot be asked, or another run goes on.
        """
        if (offer := self.offer()) and request.scheme not in offer["schemes"]:
            raise UsageError(nearest("scheme", request.scheme, offer["schemes"]))
        record = scheme(request.scheme)
        chosen = {"protocol": request.protocol, "model": [request.model]}
        settings = client_settings(chosen, record.settings(), {"model": offer["models"]})
        question: Question = {"question": request.question.strip()}
        if documents := [text for text in map(str.strip, request.documents) if text]:
            question["documents"] = dealt_documents(documents, settings)
        check(question, settings)
        question["kind"] = settings.answers_in or kind_of(question)
        if not self._busy.acquire(blocking=False):
            raise UsageError("a run that was started here has not ended; start the next one after it")
        with ExitStack() as unless_started:
            unless_started.callback(self._busy.release)
            run = start_run(new_manifest(record.name, settings, [question]), [question])  # it loads the model
            assert run.folder is not None, "made there"
            with self._lock:
                number = self._add(run.folder)
            Thread(target=self._run, args=(number, run, settings), daemon=True).start()
            unless_started.pop_all()  # the thread releases it
        return number

    def _run(self, number: int, run: Run, settings: Settings) -> None:
        trouble = ""
        try:
            run_all(run, settings, run.store())
        except SottovoceError as error:
            trouble = one_line(str(error))
        finally:
            self._busy.release()
        if trouble:
            with self._lock:
                self._announce(number, {**self.runs[number].about, "trouble": trouble})


def _about(name: str, run: Run) -> JSON:
    return about_run(name, run.manifest, run.status)


def _unread(folder: Path) -> JSON:
    """Return what the list shows of a run of which only the first and the last line are read."""
    try:
        end = last_line(folder).get("line")
        status = end if end in ("done", "stopped") else "running" if in_use(folder) else "stopped"
        return about_run(folder.name, read_manifest(folder), status)
    except (OSError, SottovoceError) as error:
        return {"name": folder.name, "about": one_line(str(error)), "status": "damaged"}
