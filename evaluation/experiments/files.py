"""Read an experiment from its file: paths in it are relative to the file's folder.

Nothing here imports torch or langgraph.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sottovoce.errors import UsageError
from sottovoce.evaluation.experiments.schema import Experiment, Given
from sottovoce.evaluation.runs.trust import Trust, lies_in
from sottovoce.nodes.settings.plain import read_yaml

WHAT = "experiment file"
OF_FILES = ("prompts", "convincing", "model", "watch", "attribute_list")
"""Settings that may name a file or a folder."""


def read_experiment(path: Path, limit: int | None = None) -> tuple[Experiment, Given]:
    """The experiment of a file, and what stands there; relative paths are made those of the file's folder.

    `limit` stands in the place of the file's own, for each source of questions.

    Raises:
        UsageError: it cannot be read, or something in it is wrong.
    """
    given = _placed(read_yaml(path, WHAT, "rows: {alone: {scheme: single}}"), path.parent)
    if "paper" in given and "parts" in given:
        raise UsageError(
            f"{str(path)!r} is a published table, of several experiments; hold it by `reproduce {path.stem}`"
        )
    if limit is not None:
        given = _of_each_source(given, lambda asked: {**asked, "limit": limit})
    try:
        return Experiment.model_validate(given), given
    except UsageError as error:
        raise UsageError(f"{error} ({WHAT} {str(path)!r})") from error


def _placed(given: Given, folder: Path) -> Given:
    """The same with the paths in it made those of a folder."""

    def located(asked: Given) -> Given:
        return {**asked, "file": str(folder.resolve() / asked["file"])} if isinstance(asked.get("file"), str) else asked

    found = _of_each_source(given, located)
    if isinstance(common := given.get("settings"), Mapping):
        found["settings"] = _settings_placed(common, folder)
    if isinstance(rows := given.get("rows"), Mapping):
        found["rows"] = {
            name: _settings_placed(row, folder) if isinstance(row, Mapping) else row for name, row in rows.items()
        }
    return found


def _of_each_source(given: Given, change: Callable[[Given], Given]) -> Given:
    """The same with each source of questions changed, be it one or a list; what is no mapping is told later."""
    asked = given.get("questions")
    if isinstance(asked, list):
        return {**given, "questions": [change({**each}) if isinstance(each, Mapping) else each for each in asked]}
    return {**given, "questions": change({**asked})} if isinstance(asked, Mapping) else dict(given)


def _settings_placed(given: Mapping[Any, Any], folder: Path) -> Given:  # Any: YAML as it comes
    """Settings with the files that lie there made absolute; a hub id looks like a path, too."""

    def placed(name: str, value: Any) -> Any:  # Any: YAML as it comes
        if isinstance(value, list):
            return [placed(name, each) for each in value]
        named_one = name == "model" and not re.search(r"/|\.gguf$", str(value))
        if name not in OF_FILES or not isinstance(value, str) or named_one:
            return value
        return str(path) if (path := folder.resolve() / value).exists() else value

    return {name: placed(str(name).replace("-", "_"), value) for name, value in given.items()}


def check_trusted(experiment: Experiment, folder: Path, trust: Trust) -> None:
    """Refuse to open what an experiment names outside the folder of its file.

    Raises:
        UsageError: names it, and the option that opens it.
    """
    for asked in experiment.questions if not trust.trust_paths else ():
        outside = asked.file and not lies_in(folder, asked.file)
        if (named := asked.hub) or (outside and (named := str(asked.file))):
            raise UsageError(
                f"{WHAT} names the questions {named!r}, which are not in its folder; add --trust-paths if you trust "
                "who made it"
            )
    for name, row in experiment.rows.items():  # a probe hears an earlier row: see `Experiment`
        trust.check_paths(row.settings.model_copy(update={"probe_from": ""}), f"row {name!r}", folder)
