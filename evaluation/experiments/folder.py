"""The folder of an experiment.

FOLDER/experiment.yaml   what it is, with its question file beside it: it goes on from here, wherever that is
FOLDER/ROW/              the run of each row (see `runs.run`)
FOLDER/ROW/pilot/        the run that measured what samples cost, of a row that is matched to another
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path

from sottovoce.errors import RecordError
from sottovoce.evaluation.experiments.files import read_experiment
from sottovoce.evaluation.experiments.schema import Given
from sottovoce.evaluation.runs.log import LOG
from sottovoce.evaluation.runs.reading import load_run
from sottovoce.evaluation.runs.results import Result
from sottovoce.evaluation.runs.run import Run
from sottovoce.outputs import EXPERIMENT, write

FILE = EXPERIMENT


def keep(given: Given, folder: Path) -> None:
    """Write what the experiment is, and its questions' file beside it.

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
    """A source of questions whose file, or folder of files, lies in this one."""
    if "file" not in asked:
        return dict(asked)
    source = Path(asked["file"])
    to = folder / f"{name}{source.suffix}"
    if not to.exists() or not source.samefile(to):
        _copy(source, to)
    return {**asked, "file": to.name}


def _copy(source: Path, to: Path) -> None:
    """Put a copy in the place of what is there: to write into that would follow links in it."""
    fresh = to.with_name(f".{uuid.uuid4().hex}.part")
    (shutil.copytree if source.is_dir() else shutil.copyfile)(source, fresh)
    if to.is_dir() and not to.is_symlink():
        shutil.rmtree(to)
    else:
        to.unlink(missing_ok=True)
    fresh.rename(to)


def runs_in(folder: Path, names: Iterable[str]) -> dict[str, Run]:
    """The runs of the rows of these names that were begun.

    Raises:
        RecordError: one of them is damaged, or was written by another version.
    """
    return {name: load_run(folder / name) for name in names if (folder / name / LOG).exists()}


def rows_in(folder: Path) -> dict[str, Run]:
    """The runs of all rows of the experiment in a folder that were begun, in the order of its file.

    Raises:
        UsageError: it holds no experiment.
        RecordError: see `runs_in`.
    """
    experiment, _ = read_experiment(folder / FILE)
    return runs_in(folder, experiment.rows)


def results_in(folder: Path) -> dict[str, list[Result]]:
    """What the discussions of each row came to; rows in which none ended are left out. No model is needed.

    Errors: see `rows_in`.
    """
    return ended(rows_in(folder))


def ended(runs: Mapping[str, Run]) -> dict[str, list[Result]]:
    """The results of runs in which anything ended."""
    found = {name: run.results() for name, run in runs.items()}
    return {name: results for name, results in found.items() if results}
