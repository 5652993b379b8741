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

from filelock import FileLock, Timeout

from sottovoce.core.any_types import JSON
from sottovoce.core.errors import RecordError, SottovoceError, UsageError
from sottovoce.core.files import text_of
from sottovoce.core.outputs import SEARCH, check_folder, check_no_link, write
from sottovoce.experiments.rows import Row
from sottovoce.experiments.runner import IDENTITY, RowRunner, differing
from sottovoce.nodes.contexts import Models
from sottovoce.nodes.question import question_id
from sottovoce.runs.job import Show
from sottovoce.runs.limits import Limits
from sottovoce.runs.log import LOCK
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.run import PAYLOADS, Run

RUNS = "runs"
FORMAT = {"format": "sottovoce.study", "version": 1}


class Study:
    """A search in a folder, resumable, by one process at a time; each trial is a row."""

    def __init__(
        self, folder: Path, limits: Limits | None = None, show: Show | None = None, models: Models = None
    ) -> None:
        """Read the definition of the search, if there is one; for the other arguments see `RowRunner`.

        Raises:
            UsageError: the folder contains something else.
            RecordError: the definition cannot be read, or another version wrote it.
        """
        check_folder(folder, "--save", SEARCH)
        self.folder, self.definition = folder, _read_definition(folder / SEARCH)
        if self.definition is None and folder.exists() and {path.name for path in folder.iterdir()} - {LOCK}:
            raise UsageError(f"--save {str(folder)!r} contains something other than a search; give a new folder")
        self._runner = RowRunner(folder / RUNS, limits, show, models)

    @contextmanager
    def opened(self, command: str, row: Row, options: JSON) -> Iterator[None]:
        """Lock the folder, which must be new or contain the same search.

        `row` is what all trials have in common; `options` are those of the search.

        Raises:
            UsageError: the folder contains another search, or a question has no target.
            RecordError: another process uses it, it cannot be written, or it contains a link.
        """
        definition = _definition(command, row, options)
        saved = definition if self.definition is None else self.definition
        if changed := next((name for name in definition if saved.get(name) != definition[name]), None):
            before, now = saved.get(changed), definition[changed]
            of = differing(before, now) if isinstance(before, Mapping) else f"{before!r}, now {now!r}"
            readable = isinstance(before, Mapping) or changed in ("command", "scheme")  # others are digests
            raise UsageError(
                f"the search in {str(self.folder)!r} was started with different {changed}"
                f"{f' ({of})' if readable else ''}; restore that, or give another folder (--save)"
            )
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            check_no_link(*self.folder.iterdir())
            with FileLock(self.folder / LOCK).acquire(timeout=0):
                if self.definition is None:
                    self.save(SEARCH, definition)
                yield
        except Timeout as error:
            raise RecordError(
                f"search {str(self.folder)!r} is in use by another process; wait for it, or stop that"
            ) from error
        except OSError as error:
            raise RecordError(f"search {str(self.folder)!r} cannot be written: {error.strerror}") from error

    def run(self, row: Row) -> Run:
        """Return the finished run of a trial; a run that already ended is read without a model.

        Raises:
            SottovoceError: a discussion failed: a score without it would mislead the search.
            LimitReached, RecordError: see `RowRunner.run`.
        """
        run = self._runner.run(row)
        if failed := [record for record in run.records.values() if record.status == "failed"]:
            raise SottovoceError(
                f"{len(failed)} of {len(run.records)} discussions of {row.name} failed; the first error: "
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


def _read_definition(path: Path) -> JSON | None:
    try:
        definition: object = json.loads(text_of(path))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise RecordError(f"{str(path)!r} is damaged ({error}); give another folder (--save)") from error
    if not isinstance(definition, dict) or not FORMAT.items() <= definition.items():
        raise RecordError(f"{str(path)!r} is not a search of this version; give another folder (--save)")
    return definition


def _definition(command: str, row: Row, options: Mapping[str, object]) -> JSON:
    for question in row.questions:
        if question.get("target") is None and "game" not in question:
            raise UsageError(f"question {question_id(question)!r} has no target, so trials cannot be ranked; drop it")
    head = new_manifest(row.scheme, row.settings, row.questions, row.seeds, row.origin, models={})  # loads none
    return {**FORMAT, "command": command, **{name: getattr(head, name) for name in IDENTITY}, "search": {**options}}
