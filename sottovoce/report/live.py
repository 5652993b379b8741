"""The runs of a live page: its list, the changes since its last request, and the runs that it starts.

Runs, discussions and words have numbers that never change, so that a page can request only the changes. Every change
increases the version. A run is read when it is first shown; a running one is read at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from threading import Lock, Thread

from pydantic import ConfigDict, Field

from sottovoce.channels import PROTOCOLS
from sottovoce.channels.store import PayloadStore
from sottovoce.core.any_types import JSON
from sottovoce.core.errors import SottovoceError, UsageError, nearest
from sottovoce.core.files import EXPERIMENT
from sottovoce.core.text import one_line
from sottovoce.core.validation import Checked
from sottovoce.datasets.question_source import check, dealt_documents
from sottovoce.graphs import SCHEMES, scheme
from sottovoce.graphs.served import client_settings
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import Settings
from sottovoce.prompts.kinds import kind_of
from sottovoce.report.viewer import Tensors, Words, about_run, items, row
from sottovoce.runs import run_directory
from sottovoce.runs.log import ClosingLine, Key
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.run import Run, load_run, read_manifest
from sottovoce.runs.run_directory import LOG, altered, in_use, last_line
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
    """A run in the list of a page; after its first reading, new lines of its log are read, from any process."""

    def __init__(self, folder: Path, about: JSON) -> None:
        """Take the data that the page shows of it."""
        self.folder, self.about, self.version = folder, about, 0
        self.run: Run | None = None
        self.seen: tuple[int, int] | None = None
        """Size and time of its log when it was read or refused; until they change, it is not read again."""
        self.reading = Lock()
        self.store: PayloadStore | None = None  # messages find their payloads while it is open

    def changed(self) -> bool:
        """Return whether its log changed since this was asked last. Raises an OSError if the log is gone."""
        log, seen = (self.folder / LOG).stat(), self.seen
        self.seen = log.st_size, log.st_mtime_ns
        return self.seen != seen


class Live:
    """The runs of one live page. Requests come from several threads; none waits for another that reads a log."""

    def __init__(self, names: Sequence[str]) -> None:
        """List these runs and the runs in these folders; without names all saved ones. Runs that start later are added.

        Raises:
            SottovoceError: a run does not exist, or is damaged.
        """
        self.version, self.runs, self.rows = 0, list[Listed](), list[JSON]()
        self.words = Words()
        self._tensors, self._lock, self._naming, self._busy = Tensors(self.words), Lock(), Lock(), Lock()
        self._discussions, self._numbers = list[tuple[int, Key]](), dict[tuple[int, Key], int]()
        at = [Path(name) for name in names if not any((Path(name) / file).exists() for file in (LOG, EXPERIMENT))]
        places = [folder for folder in at if run_directory.saved_runs(folder)]  # folders of runs
        self._folders: Callable[[], list[Path]] = partial(run_directory.saved_runs, *places)
        if named := [name for name in names if Path(name) not in places]:
            from sottovoce.report.comparison import gathered  # late: statistics take seconds

            self._folders = self._folders if places else list
            for name, run in reversed(gathered(named).runs.items()):  # the page shows the last one first
                assert run.folder is not None, "read from there"
                self.runs.append(Listed(run.folder, _about(name, run)))
                self._take(len(self.runs) - 1, run)
        self._list(self._folders())
        newest = max((listed.about.get("started", "") for listed in self.runs), default="")
        for listed in self.runs:  # those that are over are read when they are opened, or change
            with suppress(OSError):
                if listed.about["status"] != "running" and listed.about.get("started", "") < newest:
                    listed.changed()

    def changes(self, since: int) -> JSON:
        """Return the rows of runs and of discussions that changed after a version."""
        with self._lock:
            runs = [[number, each.about] for number, each in enumerate(self.runs) if each.version > since]
            rows = [[number, each] for number, each in enumerate(self.rows) if each["v"] > since]
            return {"version": self.version, "runs": runs, "rows": rows}

    def follow(self) -> None:
        """List new runs and read changes; skip a run that another thread is reading."""
        self._list(self._folders())
        for number, listed in enumerate(self.runs):
            if listed.reading.acquire(blocking=False):
                try:
                    self._look(number, listed)
                except (OSError, SottovoceError) as error:
                    gone = isinstance(error, OSError)
                    why = {"status": "gone"} if gone else {"status": "damaged", "about": one_line(str(error))}
                    with self._lock:
                        self._announce(number, {**listed.about, **why})
                finally:
                    listed.reading.release()

    def open(self, number: int) -> None:
        """Read a run to show its discussions. Errors: see `load_run`."""
        with self.runs[number].reading:
            if self.runs[number].run is None:
                self._take(number, load_run(self.runs[number].folder))

    def discussion(self, number: int, words: int) -> JSON:
        """Return a discussion: its row, its items, and the words that a page which has `words` of them lacks."""
        row = self.rows[number]  # first: the items may be newer
        with self._naming:
            self.words.learn(self._read_run(self._discussions[number][0]).manifest)
            listed = items(self._record(number), self._tensors)
            return {"row": row, "items": listed, "words": [words, self.words.texts[words:]]}

    def search(self, words: str) -> list[int]:
        """Return the discussions that contain a text."""
        listed = ((number, items(self._record(number), None)) for number in range(len(self.rows)))
        texts = ((number, [each["text"], each.get("answer", "")]) for number, said in listed for each in said)
        return [*dict.fromkeys(number for number, both in texts if words.lower() in "\n".join(both).lower())]

    def _record(self, number: int) -> DiscussionRecord:
        run, key = self._discussions[number]
        return self._read_run(run).records[key]

    def _read_run(self, number: int) -> Run:
        run = self.runs[number].run
        assert run is not None, "its discussions have numbers"
        return run

    def _look(self, number: int, listed: Listed) -> None:
        changed, run = listed.changed(), listed.run
        if changed and run is None:
            self._take(number, load_run(listed.folder))
        elif run is None:
            return
        elif changed:
            self._change(number, run.read_on())
        elif run.status == "running" and not in_use(listed.folder):  # its process was killed
            keys = [key for key, record in run.records.items() if record.status == "running"]
            run.status = "stopped"
            run.close()
            self._change(number, keys)

    def _take(self, number: int, run: Run) -> None:
        self.runs[number].run, self.runs[number].store = run, run.store()
        self._change(number, run.records)

    def _change(self, number: int, keys: Iterable[Key]) -> None:
        """Give discussions and their run new rows; a discussion that nobody has begun gets none yet."""
        run = self._read_run(number)
        records = {key: run.records[key] for key in keys}
        rows = {
            key: row(record, number, len(items(record, None)), run.names)
            for key, record in records.items()
            if record.status != "waiting" or record.messages or (number, key) in self._numbers
        }
        with self._lock:
            for key, each in rows.items():
                self.version += 1
                at = self._numbers.setdefault((number, key), len(self.rows))
                if at == len(self.rows):
                    self._discussions.append((number, key))
                    self.rows.append({})
                self.rows[at] = {**each, "v": self.version}
            self._announce(number, _about(self.runs[number].about["name"], run))

    def _announce(self, number: int, about: JSON) -> None:
        if about != self.runs[number].about or not self.runs[number].version:
            self.version += 1
            self.runs[number].about, self.runs[number].version = about, self.version

    def _list(self, folders: Iterable[Path]) -> None:
        """List the runs that are not listed yet, by their first and last lines."""
        with self._lock:
            known = {listed.folder for listed in self.runs}
            for folder in (folder for folder in folders if folder not in known):
                self.runs.append(Listed(folder, _unread(folder)))
                self._announce(len(self.runs) - 1, self.runs[-1].about)

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
            self._list([run.folder])
            number = next(number for number, listed in enumerate(self.runs) if listed.folder == run.folder)
            self.open(number)
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
    return about_run(name, run.manifest, run.status, run.counts, *run.notes)


def _unread(folder: Path) -> JSON:
    """Return the list's data on a run that was not read: its first and last line, and whether it is complete."""
    try:
        last = last_line(folder)
        closing = ClosingLine.model_validate(last) if last.get("line") in ("done", "stopped") else None
        status = closing.line if closing else "running" if in_use(folder) else "stopped"
        notes = altered(folder) if closing else ()
        return about_run(folder.name, read_manifest(folder), status, closing.counts if closing else None, *notes)
    except (OSError, ValueError, SottovoceError) as error:
        return {"name": folder.name, "about": one_line(str(error)), "status": "damaged"}
