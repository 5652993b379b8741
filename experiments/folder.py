"""The folder of an experiment.

FOLDER/experiment.yaml   the experiment, next to copies of its question files, so that the folder can be moved
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
from sottovoce.experiments.schema import Content
from sottovoce.runs.log import LOG
from sottovoce.runs.read import load_run
from sottovoce.runs.results import Result
from sottovoce.runs.run import Run

FILE = EXPERIMENT


def save(content: Content, folder: Path) -> None:
    """Write the experiment, and copies of its question files next to it.

    Raises:
        RecordError: the folder cannot be written.
    """
    import yaml

    sources = content["questions"]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_list = isinstance(sources, list)
        listed = sources if is_list else [sources]
        copies = [_copy_source(source, f"questions{number or ''}", folder) for number, source in enumerate(listed)]
        copied = copies if is_list else copies[0]
        text = yaml.safe_dump({**content, "questions": copied}, sort_keys=False, allow_unicode=True, width=120)
        write(folder / FILE, text)
    except OSError as error:
        raise RecordError(f"experiment {str(folder)!r} cannot be written: {error.strerror}") from error


def _copy_source(source: Content, name: str, folder: Path) -> Content:
    """Copy the file, or folder of files, of a source of questions into this folder; return the source with the copy."""
    if "file" not in source:
        return dict(source)
    file = Path(source["file"])
    copy = folder / f"{name}{file.suffix}"
    if not copy.exists() or not file.samefile(copy):
        _copy(file, copy)
    return {**source, "file": copy.name}


def _copy(source: Path, target: Path) -> None:
    """Replace the target by a copy; writing into the target would follow links in it."""
    temporary = target.with_name(f".{uuid.uuid4().hex}.part")
    try:
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, temporary)
    except BaseException:
        shutil.rmtree(temporary) if temporary.is_dir() else temporary.unlink(missing_ok=True)
        raise
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)
    temporary.rename(target)


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
    return runs_in(folder, read_experiment(folder / FILE).rows)


def results_in(folder: Path) -> dict[str, list[Result]]:
    """Return the results of each row, without those in which no discussion ended. No model is needed.

    Errors: see `rows_in`.
    """
    return ended(rows_in(folder))


def ended(runs: Mapping[str, Run]) -> dict[str, list[Result]]:
    """Return the results of the runs in which a discussion ended."""
    results = {name: run.results() for name, run in runs.items()}
    return {name: run_results for name, run_results in results.items() if run_results}
