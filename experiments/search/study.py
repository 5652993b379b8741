"""The folder of a search: its definition, and a run for each trial.

FOLDER/study.json   the definition; a change to it would make it another search
FOLDER/runs/NAME/   the run of each trial (see `runs.run`), without payloads once it ends: 30 layers would take 20 GB
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from sottovoce.core.errors import RecordError, SottovoceError, UsageError
from sottovoce.core.files import text_of
from sottovoce.core.outputs import SEARCH, check_folder, check_no_link, write
from sottovoce.experiments.rows import Row
from sottovoce.experiments.runner import IDENTITY, RowRunner, differing
from sottovoce.nodes.contexts import Models
from sottovoce.nodes.question import question_id
from sottovoce.nodes.state import JSON
from sottovoce.runs.job import Show
from sottovoce.runs.limits import Limits
from sottovoce.runs.log import LOCK
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.run import PAYLOADS, Run

FILE, RUNS = SEARCH, "runs"
FORMAT, VERSION = "sottovoce.study", 1


class Study:
    """A search in a folder, resumable, by one process at a time; each trial is a row."""

    def __init__(
        self, folder: Path, limits: Limits | None = None, show: Show | None = None, models: Models = None
    ) -> None:
        """Check that the folder is new, empty, or a search; for the other arguments see `RowRunner`.

        Raises:
            UsageError: it is something else.
        """
        check_folder(folder, "--save", SEARCH)
        others = [path for path in folder.iterdir() if path.name != LOCK] if folder.exists() else []
        if others and not (folder / FILE).exists():
            raise UsageError(f"--save {str(folder)!r} contains something other than a search; give a new folder")
        self.folder = folder
        self._runner = RowRunner(folder / RUNS, limits, show, models)

    @contextmanager
    def opened(self, command: str, row: Row, options: Mapping[str, Any]) -> Iterator[None]:  # Any: plain JSON
        """Lock the folder, which must be new or contain the same search.

        Args:
            command: The command that searches.
            row: What all trials have in common.
            options: The options of the search.

        Raises:
            UsageError: the folder contains another search, or a question has no target.
            RecordError: another process uses it, it cannot be written, or it contains a link.
        """
        definition = _definition(command, row, options)
        saved = self.definition()
        for name, value in definition.items() if saved is not None else ():
            if saved is not None and saved.get(name) != value:
                raise UsageError(
                    f"the search in {str(self.folder)!r} was started with different {name}"
                    f"{_difference(name, saved.get(name), value)}; restore that, or give another folder (--save)"
                )
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            check_no_link(*self.folder.iterdir())
            with FileLock(self.folder / LOCK).acquire(timeout=0):
                if saved is None:
                    self.save(FILE, definition)
                yield
        except Timeout as error:
            raise RecordError(
                f"search {str(self.folder)!r} is in use by another process; wait for it, or stop that"
            ) from error
        except OSError as error:
            raise RecordError(f"search {str(self.folder)!r} cannot be written: {error.strerror}") from error

    def definition(self) -> JSON | None:
        """Return the definition of the folder's search; None if it is new.

        Raises:
            RecordError: it cannot be read, or another version wrote it.
        """
        path = self.folder / FILE
        try:
            definition: object = json.loads(text_of(path))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            raise RecordError(f"{str(path)!r} is damaged ({error}); give another folder (--save)") from error
        ours = {"format": FORMAT, "version": VERSION}
        if not isinstance(definition, dict) or not ours.items() <= definition.items():
            raise RecordError(f"{str(path)!r} is not a search of this version; give another folder (--save)")
        return definition

    def run(self, row: Row) -> Run:
        """Return the finished run of a trial; a run that already ended is read without a model.

        Raises:
            SottovoceError: a discussion failed: a score without it would mislead the search.
            LimitReached, RecordError: see `RowRunner.run`.
        """
        run = self._runner.run(row)
        failed = [record for record in run.records.values() if record.status == "failed"]
        if failed:
            raise SottovoceError(
                f"{len(failed)} of {len(run.records)} discussions of {row.name} failed, the first one: "
                f"{failed[0].error}; run the same command to try them again"
            )
        shutil.rmtree(self._runner.folder / row.name / PAYLOADS, ignore_errors=True)
        return run

    def started(self, name: str) -> Run | None:
        """Return the run of a trial that has started, else None. Errors: see `RowRunner.read`."""
        self._runner.read([name])
        return self._runner.runs.get(name)

    @property
    def discussions(self) -> int:
        """The number of discussions of all trials so far."""
        return sum(len(run.records) for run in self._runner.runs.values())

    def save(self, name: str, results: JSON) -> None:
        """Write results as JSON. Errors: see `outputs.write`."""
        write(self.folder / name, json.dumps(results, indent=2, ensure_ascii=False) + "\n")


def _definition(command: str, row: Row, options: Mapping[str, Any]) -> JSON:  # Any: plain JSON
    for question in row.questions:
        if question.get("target") is None and "game" not in question:
            raise UsageError(f"question {question_id(question)!r} has no target, so trials cannot be ranked; drop it")
    head = new_manifest(row.scheme, row.settings, row.questions, row.seeds, row.origin, models={})  # loads none
    common = {name: getattr(head, name) for name in IDENTITY}
    return {"format": FORMAT, "version": VERSION, "command": command, **common, "search": {**options}}


def _difference(name: str, before: object, now: object) -> str:
    """Describe the difference if a reader would recognize it, else return an empty text."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        return f" ({differing(before, now)})"
    return f" ({before!r}, now {now!r})" if name in ("command", "scheme") else ""
