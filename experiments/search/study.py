"""The folder of a search: its definition, and a run for each trial.

FOLDER/study.json   the definition; a change to it would make it another search
FOLDER/runs/NAME/   the run of each trial (see `runs.run`), without payloads once it ends: 30 layers would take 20 GB
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from sottovoce.core.errors import RecordError, SottovoceError, UsageError
from sottovoce.core.files import text_of
from sottovoce.core.outputs import SEARCH, check_no_link, write
from sottovoce.core.outputs import check_folder as check_output_folder
from sottovoce.experiments.checks import SAME, check_same, differing
from sottovoce.experiments.rows import Prepared
from sottovoce.experiments.run_rows import Shown, hold_row, left_of, opened, reached
from sottovoce.nodes.inputs import Models
from sottovoce.nodes.question import question_id
from sottovoce.nodes.state import JSON
from sottovoce.runs.limits import Limits
from sottovoce.runs.log import LOCK, LOG
from sottovoce.runs.manifest import head_of
from sottovoce.runs.read import load_run
from sottovoce.runs.run import PAYLOADS, Run

FILE, RUNS = SEARCH, "runs"
FORMAT, VERSION = "sottovoce.study", 1


class Study:
    """A search in a folder, resumable, by one process at a time."""

    def __init__(
        self, folder: Path, limits: Limits | None = None, shown: Shown | None = None, models: Models = None
    ) -> None:
        """Open a folder; for the other arguments see `experiments.running.hold`. Errors: see `check_folder`."""
        check_folder(folder)
        self.folder, self.limits = folder, limits or Limits()
        self._shown, self._models, self._began = shown, models, time.monotonic()
        self._runs: dict[str, Run] = {}

    def hold(self, row: Prepared) -> Run:
        """Return the finished run of a trial; a run that already ended is read without a model.

        Raises:
            RecordError: the run was started with other settings, cannot be written, or its path is a link.
            SottovoceError: a limit was reached, or a discussion failed: a score without it would mislead the search.
        """
        folder = self.folder / RUNS
        check_no_link(folder / row.name)
        run = load_run(folder / row.name) if (folder / row.name / LOG).exists() else None
        if run is not None:
            check_same(row, run.head, folder)
        if run is None or run.unfinished:
            run = self._go_on(row, run, folder)
        _check_over(run, row.name)
        shutil.rmtree(folder / row.name / PAYLOADS, ignore_errors=True)
        self._runs[row.name] = run
        return run

    def _go_on(self, row: Prepared, run: Run | None, folder: Path) -> Run:
        others = [*self._runs.values()]
        if why := reached(self.limits, others, self._began):
            raise _stopped(why)
        known = self._runs if run is None else {**self._runs, row.name: run}
        run = opened(row, None, known, folder, self._models)
        hold_row(row, run, left_of(self.limits, others, self._began), self._shown, self._models)
        if run.why:
            raise _stopped(run.why)
        return run

    @property
    def spent(self) -> int:
        """The number of discussions of all trials so far."""
        return sum(len(run.records) for run in self._runs.values())

    def keep(self, name: str, found: JSON) -> None:
        """Write results as JSON. Errors: see `outputs.write`."""
        write(self.folder / name, json.dumps(found, indent=2, ensure_ascii=False) + "\n")


def about(command: str, row: Prepared, search: Mapping[str, Any]) -> JSON:  # Any: plain JSON
    """Return the definition of a search: the command, its search options, and what all its runs have in common.

    Raises:
        UsageError: a question has no target, or the prompts cannot be read.
    """
    for each in row.questions:
        if each.get("target") is None and "game" not in each:
            raise UsageError(f"question {question_id(each)!r} has no target, so trials cannot be ranked; drop it")
    head = head_of(row.scheme, row.settings, row.questions, row.seeds, row.origin, models={})  # loads none
    common = {name: getattr(head, name) for name in SAME}
    return {"format": FORMAT, "version": VERSION, "command": command, **common, "search": {**search}}


@contextmanager
def opened_study(study: Study, told: JSON) -> Iterator[None]:
    """Lock a study's folder, which must be new or contain a search with the definition `told`.

    Raises:
        UsageError: the folder contains another search.
        RecordError: another process uses it, it cannot be written, or it contains a link.
    """
    folder = study.folder
    before = read_study(folder)
    if before is not None:
        _check(before, told, folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        check_no_link(*folder.iterdir())
        with FileLock(folder / LOCK).acquire(timeout=0):
            if before is None:
                study.keep(FILE, told)
            yield
    except Timeout as error:
        raise RecordError(f"search {str(folder)!r} is in use by another process; wait for it, or stop that") from error
    except OSError as error:
        raise RecordError(f"search {str(folder)!r} cannot be written: {error.strerror}") from error


def check_folder(folder: Path) -> None:
    """Check that a folder is new, empty, or a search.

    Raises:
        UsageError: it is something else.
    """
    check_output_folder(folder, "--save", SEARCH)
    others = [path for path in folder.iterdir() if path.name != LOCK] if folder.exists() else []
    if others and not (folder / FILE).exists():
        raise UsageError(f"--save {str(folder)!r} contains something other than a search; give a new folder")


def read_study(folder: Path) -> JSON | None:
    """Return the definition of a folder's search; None if there is none.

    Raises:
        RecordError: it cannot be read, or another version wrote it.
    """
    try:
        found = json.loads(text_of(folder / FILE))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise RecordError(f"{str(folder / FILE)!r} is damaged ({error}); give another folder (--save)") from error
    if not isinstance(found, dict) or (found.get("format"), found.get("version")) != (FORMAT, VERSION):
        raise RecordError(f"{str(folder / FILE)!r} is not a search of this version; give another folder (--save)")
    return found


def _check(before: JSON, now: JSON, folder: Path) -> None:
    for name, wanted in now.items():
        if (found := before.get(name)) != wanted:
            raise UsageError(
                f"the search in {str(folder)!r} was started with different {name}{_told(name, found, wanted)}; "
                "restore that, or give another folder (--save)"
            )


def _told(name: str, found: object, wanted: object) -> str:
    """Describe the difference if a reader would recognize it, else return an empty text."""
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        return f" ({differing(found, wanted)})"
    return f" ({found!r}, now {wanted!r})" if name in ("command", "scheme") else ""


def _check_over(run: Run, name: str) -> None:
    failed = [record for record in run.records.values() if record.status == "failed"]
    if failed:
        raise SottovoceError(
            f"{len(failed)} of {len(run.records)} discussions of {name} failed, the first one: {failed[0].error}; "
            "run the same command to try them again"
        )


def _stopped(why: str) -> SottovoceError:
    return SottovoceError(f"{why}; run the same command to continue, with a higher limit or none")
