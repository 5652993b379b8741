"""The reader of experiment files; paths in a file are relative to its folder.

Nothing here imports torch or langgraph.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sottovoce.core.errors import UsageError
from sottovoce.experiments.schema import Experiment, Given
from sottovoce.runs.allowed import Trust, lies_in
from sottovoce.settings.plain import read_yaml

WHAT = "experiment file"
OF_FILES = ("prompts", "convincing", "model", "watch", "attribute_list")
"""Settings that may name a file or a folder."""


def read_experiment(path: Path, limit: int | None = None) -> tuple[Experiment, Given]:
    """Return the experiment in a file, and the file's content with its paths resolved against the file's folder.

    `limit` replaces the file's own limit for each source of questions.

    Raises:
        UsageError: the file cannot be read, or something in it is wrong.
    """
    given = _placed(read_yaml(path, WHAT, "rows: {alone: {scheme: single}}"), path.parent)
    if "paper" in given and "parts" in given:
        raise UsageError(
            f"{str(path)!r} is a published table of several experiments; run it with `experiment reproduce {path.stem}`"
        )
    if limit is not None:
        given = _of_each_source(given, lambda asked: {**asked, "limit": limit})
    try:
        return Experiment.model_validate(given), given
    except UsageError as error:
        raise UsageError(f"{error} ({WHAT} {str(path)!r})") from error


def _placed(given: Given, folder: Path) -> Given:
    """Return the content of a file with its paths resolved against a folder."""

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
    """Return the content with each source of questions changed; a source of the wrong type is reported later."""
    asked = given.get("questions")
    if isinstance(asked, list):
        return {**given, "questions": [change({**each}) if isinstance(each, Mapping) else each for each in asked]}
    return {**given, "questions": change({**asked})} if isinstance(asked, Mapping) else dict(given)


def _settings_placed(given: Mapping[Any, Any], folder: Path) -> Given:  # Any: parsed YAML
    """Return settings with absolute paths for files that exist in the folder; a hub id looks like a path, too."""

    def placed(name: str, value: Any) -> Any:  # Any: parsed YAML
        if isinstance(value, list):
            return [placed(name, each) for each in value]
        named_one = name == "model" and not re.search(r"/|\.gguf$", str(value))
        if name not in OF_FILES or not isinstance(value, str) or named_one:
            return value
        return str(path) if (path := folder.resolve() / value).exists() else value

    return {name: placed(str(name).replace("-", "_"), value) for name, value in given.items()}


def check_trusted(experiment: Experiment, folder: Path, trust: Trust) -> None:
    """Check that an experiment names nothing outside the folder of its file, unless that is trusted.

    Raises:
        UsageError: names the source, and the option that allows it.
    """
    for asked in experiment.questions if not trust.trust_paths else ():
        outside = asked.file and not lies_in(folder, asked.file)
        if (named := asked.hub) or (outside and (named := str(asked.file))):
            raise UsageError(
                f"{WHAT} names the questions {named!r}, which are not in its folder; add --trust-paths if you trust "
                "who made it"
            )
    for name, row in experiment.rows.items():  # `probe_from` names an earlier row: see `Experiment`
        trust.check_paths(row.settings.model_copy(update={"probe_from": ""}), f"row {name!r}", folder)
