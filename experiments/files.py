"""Experiment files, and folders of experiments; paths in a file are relative to its folder.

FOLDER/experiment.yaml   the experiment, next to copies of its question files, so that the folder can be moved
FOLDER/ROW/              the run of each row (see `runs.run`)
FOLDER/ROW/pilot/        the run that measured the cost of samples, if the row is matched to another
"""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path

from sottovoce.core.any_types import JSONValue
from sottovoce.core.errors import RecordError, UsageError
from sottovoce.core.outputs import EXPERIMENT, write
from sottovoce.experiments.row_content import Content, plain
from sottovoce.experiments.schema import Experiment
from sottovoce.runs.allowed import Trust, lies_in
from sottovoce.runs.log import LOG
from sottovoce.runs.read import load_run
from sottovoce.runs.results import Results
from sottovoce.runs.run import Run
from sottovoce.settings.plain import read_yaml

KIND = "experiment file"
FILE_SETTINGS = ("prompts", "convincing", "model", "watch", "attribute_list")
"""Settings that may name a file or a folder."""


def read_experiment(path: Path, limit: int | None = None) -> Experiment:
    """Return the experiment in a file or in the folder of an experiment, with absolute paths.

    `limit` replaces the file's own limit for each source of questions.

    Raises:
        UsageError: the file cannot be read, or something in it is wrong.
    """
    path = path / EXPERIMENT if path.is_dir() else path
    content = read_yaml(path, KIND, "rows: {alone: {scheme: single}}")
    if "paper" in content and "parts" in content:
        raise UsageError(
            f"{str(path)!r} is a published table of several experiments; run it with `experiment reproduce {path.stem}`"
        )
    try:
        return Experiment.model_validate(_resolved(content, path.parent.resolve(), limit))
    except UsageError as error:
        raise UsageError(f"{error} ({KIND} {str(path)!r})") from error


def _resolved(content: Content, folder: Path, limit: int | None) -> Content:
    """Return the content with absolute paths and this limit; values of a wrong type are reported later."""

    def source(value: JSONValue) -> JSONValue:
        if not isinstance(value, Mapping):
            return value
        file = {"file": str(folder / value["file"])} if isinstance(value.get("file"), str) else {}
        return {**value, **file, **({} if limit is None else {"limit": limit})}

    def settings(value: JSONValue) -> JSONValue:
        return {k: _resolve(plain(k), v, folder) for k, v in value.items()} if isinstance(value, Mapping) else value

    content = dict(content)
    if (sources := content.get("questions")) is not None:
        content["questions"] = [*map(source, sources)] if isinstance(sources, list) else source(sources)
    if isinstance(points := content.get("points"), Mapping):
        content["points"] = {
            name: _resolved(dict(point), folder, limit) if isinstance(point, Mapping) else point
            for name, point in points.items()
        }
    if (common := content.get("settings")) is not None:
        content["settings"] = settings(common)
    if isinstance(rows := content.get("rows"), Mapping):
        content["rows"] = {name: settings(row) for name, row in rows.items()}
    return content


def _resolve(name: str, value: JSONValue, folder: Path) -> JSONValue:
    """Return the absolute path of a file that exists in the folder; a hub id looks like a path, too."""
    if isinstance(value, list):
        return [_resolve(name, item, folder) for item in value]
    is_model_name = name == "model" and not re.search(r"/|\.gguf$", str(value))
    if name not in FILE_SETTINGS or not isinstance(value, str) or is_model_name:
        return value
    return str(path) if (path := folder / value).exists() else value


def check_trusted(experiment: Experiment, folder: Path, trust: Trust) -> None:
    """Check that an experiment names nothing outside the folder of its file, unless that is trusted.

    Raises:
        UsageError: names the source, and the option that allows it.
    """
    pooled = [experiment.questions, *(point.questions for point in experiment.points.values())]
    for source in chain.from_iterable(pooled) if not trust.trust_paths else ():
        outside = str(source.file) if source.file and not lies_in(folder, source.file) else None
        if name := source.hub or outside:
            raise UsageError(
                f"{KIND} names the questions {name!r}, which are not in its folder; add --trust-paths if you trust "
                "who made it"
            )
    for name, row in experiment.rows.items():  # `probe_from` names an earlier row: see `Experiment`
        trust.check_paths(row.settings.model_copy(update={"probe_from": ""}), f"row {name!r}", folder)


def save(content: Content, folder: Path) -> None:
    """Write the experiment, and copies of its question files next to it.

    Raises:
        RecordError: the folder cannot be written.
    """
    import yaml

    try:
        folder.mkdir(parents=True, exist_ok=True)
        copied = _copied(content, "questions", folder)
        write(folder / EXPERIMENT, yaml.safe_dump(copied, sort_keys=False, allow_unicode=True, width=120))
    except OSError as error:
        raise RecordError(f"experiment {str(folder)!r} cannot be written: {error.strerror}") from error


def _copied(content: Content, name: str, folder: Path) -> Content:
    """Copy the question files of an experiment and its points; return the content with the copies."""
    content = dict(content)
    if (sources := content.get("questions")) is not None:
        listed = sources if isinstance(sources, list) else [sources]
        copies = [_copy_source(source, f"{name}{number or ''}", folder) for number, source in enumerate(listed)]
        content["questions"] = copies if isinstance(sources, list) else copies[0]
    if points := content.get("points"):
        content["points"] = {label: _copied(point, f"{name}-{label}", folder) for label, point in points.items()}
    return content


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


def runs_in(folder: Path, names: Iterable[str] | None = None) -> dict[str, Run]:
    """Return the runs that have started of the named rows, or of all rows of the experiment in the folder.

    Raises:
        UsageError: the folder has no experiment.
        RecordError: a run is damaged, or was written by another version.
    """
    names = read_experiment(folder / EXPERIMENT).rows if names is None else names
    return {name: load_run(folder / name) for name in names if (folder / name / LOG).exists()}


def results_in(folder: Path) -> dict[str, Results]:
    """Return the results of each row, without those in which no discussion ended. Errors: see `runs_in`."""
    return ended(runs_in(folder))


def ended(runs: Mapping[str, Run]) -> dict[str, Results]:
    """Return the results of the runs in which a discussion ended."""
    return {name: results for name, run in runs.items() if (results := run.results())}
