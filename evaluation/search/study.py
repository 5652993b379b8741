"""The folder of a search: what it is, and a run for each trial.

FOLDER/study.json   what it is: with anything else it would be another search
FOLDER/runs/NAME/   the run of each trial (see `runs.run`); payloads go once it is over: those of 30 layers take 20 GB
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

from sottovoce.errors import RecordError, SottovoceError, UsageError
from sottovoce.evaluation.experiments.checks import SAME, check_same, differing
from sottovoce.evaluation.experiments.rows import Prepared
from sottovoce.evaluation.experiments.running import Shown, hold_row, left_of, opened, reached
from sottovoce.evaluation.runs.head import head_of
from sottovoce.evaluation.runs.limits import Limits
from sottovoce.evaluation.runs.log import LOCK, LOG
from sottovoce.evaluation.runs.reading import load_run
from sottovoce.evaluation.runs.run import PAYLOADS, Run
from sottovoce.nodes.given import Models
from sottovoce.nodes.question import question_id
from sottovoce.nodes.state import JSON
from sottovoce.outputs import SEARCH, check_no_link, write
from sottovoce.outputs import check_folder as check_output_folder
from sottovoce.regular import text_of

FILE, RUNS = SEARCH, "runs"
FORMAT, VERSION = "sottovoce.study", 1


class Study:
    """A search that goes on, one process at a time."""

    def __init__(
        self, folder: Path, limits: Limits | None = None, shown: Shown | None = None, models: Models = None
    ) -> None:
        """In a folder; for the rest see `experiments.running.hold`. Errors: see `check_folder`."""
        check_folder(folder)
        self.folder, self.limits = folder, limits or Limits()
        self._shown, self._models, self._began = shown, models, time.monotonic()
        self._runs: dict[str, Run] = {}

    def hold(self, row: Prepared) -> Run:
        """A trial's run to its end; one that is over is read, without a model.

        Raises:
            RecordError: it was begun otherwise, cannot be written, or a link stands in its place.
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
        """Discussions of all trials so far."""
        return sum(len(run.records) for run in self._runs.values())

    def keep(self, name: str, found: JSON) -> None:
        """Write what was found, as JSON. Errors: see `files.write`."""
        write(self.folder / name, json.dumps(found, indent=2, ensure_ascii=False) + "\n")


def about(command: str, row: Prepared, search: Mapping[str, Any]) -> JSON:  # Any: plain JSON
    """What makes a search this one: the command and how it searches, and what all its runs have in common.

    Raises:
        UsageError: a question has no target, or the prompts cannot be read.
    """
    for each in row.questions:
        if each.get("target") is None and "game" not in each:
            raise UsageError(f"question {question_id(each)!r} has no target: nothing would tell which trial is best")
    head = head_of(row.scheme, row.settings, row.questions, row.seeds, row.origin, models={})  # loads none
    common = {name: getattr(head, name) for name in SAME}
    return {"format": FORMAT, "version": VERSION, "command": command, **common, "search": {**search}}


@contextmanager
def opened_study(study: Study, told: JSON) -> Iterator[None]:
    """Hold a study's folder, new or one that was begun as it is `told` now.

    Raises:
        UsageError: it holds another search.
        RecordError: another process has it, it cannot be written, or there is a link in it.
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
    """Refuse what is neither new, nor empty, nor a search.

    Raises:
        UsageError: says what was found.
    """
    check_output_folder(folder, "--save", SEARCH)
    others = [path for path in folder.iterdir() if path.name != LOCK] if folder.exists() else []
    if others and not (folder / FILE).exists():
        raise UsageError(f"--save {str(folder)!r} holds something else than a search; give a new folder")


def read_study(folder: Path) -> JSON | None:
    """What a folder's search is; None where none was begun.

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
        raise RecordError(f"{str(folder / FILE)!r} is no search of this version; give another folder (--save)")
    return found


def _check(before: JSON, now: JSON, folder: Path) -> None:
    for name, wanted in now.items():
        if (found := before.get(name)) != wanted:
            raise UsageError(
                f"the search in {str(folder)!r} was begun with other {name}{_told(name, found, wanted)}; "
                "put that back, or give another folder (--save)"
            )


def _told(name: str, found: object, wanted: object) -> str:
    """What differs, where a reader would know it again."""
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        return f" ({differing(found, wanted)})"
    return f" ({found!r}, now {wanted!r})" if name in ("command", "scheme") else ""


def _check_over(run: Run, name: str) -> None:
    failed = [record for record in run.records.values() if record.status == "failed"]
    if failed:
        raise SottovoceError(
            f"{len(failed)} of {len(run.records)} discussions of {name} failed, the first one: {failed[0].error}; "
            "the same command tries them again"
        )


def _stopped(why: str) -> SottovoceError:
    return SottovoceError(f"{why}; the same command goes on, with a higher limit or none")
