"""Experiment files, and folders of experiments; paths in a file are relative to its folder.

FOLDER/experiment.yaml   the experiment, next to copies of its question files, so that the folder can be moved
FOLDER/ROW/              the run of each row (see `runs.run`)
FOLDER/ROW/pilot/        the run that measured the cost of samples, if the row is matched to another
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Collection, Iterable, Mapping
from importlib.resources import files
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from sottovoce.core.any_types import JSONValue
from sottovoce.core.errors import RecordError, UsageError, nearest
from sottovoce.core.files import EXPERIMENT, read_yaml, write
from sottovoce.core.trust import Trust, lies_in
from sottovoce.experiments.row_content import Content, plain, with_settings
from sottovoce.experiments.schema import Experiment
from sottovoce.runs.manifest import digest
from sottovoce.runs.record import Results
from sottovoce.runs.run import Run, load_run
from sottovoce.runs.run_directory import LOG

KIND, EXAMPLES = "experiment file", "file of worked examples"
EXAMPLE = "rows: {alone: {scheme: single}}"
DATA = Path("data")
NAMES = ("against", "floor", "row", "rows", "points", "probe_from", "probe-from")
"""Keys of names of rows and points."""
FILE_SETTINGS = ("prompts", "convincing", "model", "watch", "attribute_list", "bridge")
"""Settings that may name a file or a folder."""


def shipped() -> dict[str, Path]:
    """Return the experiments of this project by name: our own, and the tables and figures of papers."""
    folder = Path(str(files("sottovoce"))) / "experiments"
    return {path.stem: path for path in sorted(folder.glob("**/*.yaml")) if path.parent.name != "examples"}


def read_experiment(
    path: Path, limit: int | None = None, data: Path = DATA, settings: Mapping[str, JSONValue] | None = None
) -> Experiment:
    """Return the experiment in a file or in the folder of an experiment, with absolute paths.

    Args:
        path: The file or folder.
        limit: Replaces the file's own limit for each source of questions.
        data: The folder that the file calls `{data}`.
        settings: Settings of all rows, whatever the file sets.

    Raises:
        UsageError: the file cannot be read, or something in it is wrong.
    """
    path = path / EXPERIMENT if path.is_dir() else path
    content = _filled(read_yaml(path, KIND, EXAMPLE, NAMES), str(data.resolve()))
    if path.name != EXPERIMENT or "file" not in content:
        content["file"] = str(path.resolve())
    resolved = _resolved(content, path.parent.resolve(), limit)
    try:
        return Experiment.model_validate(with_settings(resolved, {**settings}) if settings else resolved)
    except UsageError as error:
        raise UsageError(f"{error} ({KIND} {str(path)!r})") from error


def _filled(value: JSONValue, data: str) -> JSONValue:
    """Return the value with the folder of data sets in place of `{data}`."""
    if isinstance(value, Mapping):
        return {name: _filled(item, data) for name, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, data) for item in value]
    return value.replace("{data}", data) if isinstance(value, str) else value


def _resolved(content: Content, folder: Path, limit: int | None) -> Content:
    """Return the content with absolute paths and this limit; values of a wrong type are reported later."""

    def source(value: JSONValue) -> JSONValue:
        if not isinstance(value, Mapping):
            return value
        value = dict(value)
        if isinstance(value.get("file"), str):
            value["file"] = str(folder / value["file"])
        if isinstance(examples := value.pop("examples", None), str):
            value["task_demonstration"] = examples_of(folder, examples)
        if limit is not None:
            value |= {"limit": limit, "printed": value.get("printed", value.get("limit"))}
        return value

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


def examples_of(folder: Path, name: str) -> list[str]:
    """Return worked examples by file and task: "examples/cipher.yaml:gsm8k"."""
    file, _, task = name.rpartition(":")
    examples = read_yaml(folder / file, EXAMPLES, "gsm8k: [QUESTION AND SOLUTION]")
    if task not in examples:
        raise UsageError(nearest(f"task in the {EXAMPLES} {file!r}", task, examples))
    return [str(example) for example in examples[task]]


def _resolve(name: str, value: JSONValue, folder: Path) -> JSONValue:
    """Return the absolute path of a file that exists in the folder; a hub id looks like a path, too."""
    if isinstance(value, list):
        return [_resolve(name, item, folder) for item in value]
    is_model_name = name == "model" and not re.search(r"/|\.gguf$", str(value))
    if name not in FILE_SETTINGS or not isinstance(value, str) or is_model_name:
        return value
    return str(path) if (path := folder / value).exists() else value


def check_trusted(experiment: Experiment, folder: Path, trust: Trust, typed: Collection[str] = ()) -> None:
    """Check that an experiment names nothing outside the folder of its file, unless that is trusted.

    Settings that are `typed` on the command line are trusted.

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
        defaults = type(row.settings)().model_dump(include={plain(setting) for setting in typed})
        trust.check_paths(row.settings.model_copy(update={"probe_from": "", **defaults}), f"row {name!r}", folder)


def check_data(experiment: Experiment, names: Collection[str]) -> None:
    """Check that the question files of these rows are here.

    Raises:
        UsageError: names the first missing file, and the rows whose files are here.
    """
    chosen = dict.fromkeys(experiment.rows[name].point for name in experiment.runs_of(names))
    missing = {
        point: source.file
        for point in filter(None, chosen)  # without points, the error of the file says it all
        for source in experiment.points[point].questions
        if source.file is not None and not source.file.exists()
    }
    if not missing:
        return
    here = " ".join(f"--rows {shlex.quote(f'*.{point}')}" for point in chosen if point not in missing)
    first, rest = str(next(iter(missing.values()))), f", or run the rows whose data are here: {here}" if here else ""
    lacking = f"{len(missing)} of {len(chosen)} points have no data here, the first is {first!r}"
    raise UsageError(f"{lacking}; put it there, or name its folder with --data{rest}")


def check_file(experiment: Experiment, folder: Path) -> None:
    """Raise a UsageError for a folder that was made from another file, unless that is gone: then it was moved."""
    saved = read_yaml(folder / EXPERIMENT, KIND, EXAMPLE) if (folder / EXPERIMENT).exists() else {}
    old, new = saved.get("file"), experiment.file
    if isinstance(old, str) and new and old != new and os.path.exists(old):
        raise UsageError(f"{str(folder)!r} belongs to {old!r}, not to {new!r}; choose another with --save FOLDER")


def save(content: Content, folder: Path, points: Collection[str] = ()) -> None:
    """Write the experiment, and copies of the question files of these points, or of all rows, next to it.

    Raises:
        RecordError: the folder cannot be written.
    """
    import yaml

    copies: dict[Path, str] = {}  # the same file may serve several points

    def copied(source: Content) -> Content:
        if "file" not in source:
            return source
        file = Path(source["file"])
        if file.parent != folder.resolve() and file not in copies:
            copies[file] = f"questions+{digest(str(file))[:8]}{file.suffix}"  # no row can have a name with a +
            _copy(file, folder / copies[file])
        return {**source, "file": copies.get(file, file.name)}

    def with_copies(part: Content) -> Content:
        sources = part["questions"]
        return {**part, "questions": [*map(copied, sources)] if isinstance(sources, list) else copied(sources)}

    try:
        folder.mkdir(parents=True, exist_ok=True)
        content = with_copies(content) if content.get("questions") is not None else dict(content)
        if listed := content.get("points"):
            content["points"] = {**listed, **{name: with_copies(listed[name]) for name in listed if name in points}}
        write(folder / EXPERIMENT, yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120))
    except OSError as error:
        raise RecordError(f"experiment {str(folder)!r} cannot be written: {error.strerror}") from error


def _copy(source: Path, target: Path) -> None:
    """Replace the target by a copy; writing into the target would follow links in it."""
    with TemporaryDirectory(prefix=".", dir=target.parent) as temporary:
        copy = (shutil.copytree if source.is_dir() else shutil.copyfile)(source, Path(temporary) / target.name)
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)
        copy.rename(target)


def runs_in(folder: Path, names: Iterable[str] | None = None) -> dict[str, Run]:
    """Return the runs that have started of the named rows, or of all rows of the experiment in the folder.

    Raises:
        UsageError: the folder has no experiment.
        RecordError: a run is damaged, or was written by another version.
    """
    names = read_experiment(folder / EXPERIMENT).rows if names is None else names
    return {name: load_run(folder / name) for name in names if (folder / name / LOG).exists()}


def ended(runs: Mapping[str, Run]) -> dict[str, Results]:
    """Return the results of the runs with at least one ended discussion."""
    return {name: results for name, run in runs.items() if (results := run.results())}
