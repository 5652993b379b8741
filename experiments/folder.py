"""The folder of an experiment.

FOLDER/experiment.yaml   the experiment, next to a copy of its question file, so that the folder can be moved
FOLDER/ROW/              the run of each row (see `runs.run`)
FOLDER/ROW/pilot/        the run that measured the cost of samples, if the row is matched to another
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path

from sottovoce.core.errors import RecordError
from sottovoce.core.outputs import EXPERIMENT, write
from sottovoce.experiments.files import read_experiment
from sottovoce.experiments.schema import Given
from sottovoce.runs.log import LOG
from sottovoce.runs.read import load_run
from sottovoce.runs.results import Result
from sottovoce.runs.run import Run

FILE = EXPERIMENT


def keep(given: Given, folder: Path) -> None:
    """Write the experiment, and a copy of its question file next to it.

    Raises:
        RecordError: the folder cannot be written.
    """
    import yaml

    listed = given["questions"] if isinstance(given["questions"], list) else None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        asked = listed if listed is not None else [given["questions"]]
        kept = [_kept(each, f"questions{number or ''}", folder) for number, each in enumerate(asked)]
        questions = kept[0] if listed is None else kept
        text = yaml.safe_dump({**given, "questions": questions}, sort_keys=False, allow_unicode=True, width=120)
        write(folder / FILE, text)
    except OSError as error:
        raise RecordError(f"experiment {str(folder)!r} cannot be written: {error.strerror}") from error


def _kept(asked: Given, name: str, folder: Path) -> Given:
    """Copy the file, or folder of files, of a source of questions into this folder; return the source with the copy."""
    if "file" not in asked:
        return dict(asked)
    source = Path(asked["file"])
    to = folder / f"{name}{source.suffix}"
    if not to.exists() or not source.samefile(to):
        _copy(source, to)
    return {**asked, "file": to.name}


def _copy(source: Path, to: Path) -> None:
    """Replace the target by a copy; writing into the target would follow links in it."""
    fresh = to.with_name(f".{uuid.uuid4().hex}.part")
    try:
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, fresh)
    except BaseException:
        shutil.rmtree(fresh) if fresh.is_dir() else fresh.unlink(missing_ok=True)
        raise
    if to.is_dir() and not to.is_symlink():
        shutil.rmtree(to)
    else:
        to.unlink(missing_ok=True)
    fresh.rename(to)


def runs_in(folder: Path, names: Iterable[str]) -> dict[str, Run]:
    """Return the runs of the named rows that have started.

    Raises:
        RecordError: one of them is damaged, or was written by another version.
    """
    return {name: load_run(folder / name) for name in names if (folder / name / LOG).exists()}


def rows_in(folder: Path) -> dict[str, Run]:
    """Return the runs of all rows that have started of the experiment in a folder, in the order of its file.

    Raises:
        UsageError: the folder has no experiment.
        RecordError: see `runs_in`.
    """
    experiment, _ = read_experiment(folder / FILE)
    return runs_in(folder, experiment.rows)


def results_in(folder: Path) -> dict[str, list[Result]]:
    """Return the results of each row, without those in which no discussion ended. No model is needed.

    Errors: see `rows_in`.
    """
    return ended(rows_in(folder))


def ended(runs: Mapping[str, Run]) -> dict[str, list[Result]]:
    """Return the results of the runs in which a discussion ended."""
    found = {name: run.results() for name, run in runs.items()}
    return {name: results for name, results in found.items() if results}
