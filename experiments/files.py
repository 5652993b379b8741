"""The reader of experiment files; paths in a file are relative to its folder.

Nothing here imports torch or langgraph.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sottovoce.core.errors import UsageError
from sottovoce.experiments.schema import Content, Experiment, plain
from sottovoce.runs.allowed import Trust, lies_in
from sottovoce.settings.plain import read_yaml

KIND = "experiment file"
FILE_SETTINGS = ("prompts", "convincing", "model", "watch", "attribute_list")
"""Settings that may name a file or a folder."""


def read_experiment(path: Path, limit: int | None = None) -> Experiment:
    """Return the experiment in a file, with paths resolved against the file's folder.

    `limit` replaces the file's own limit for each source of questions.

    Raises:
        UsageError: the file cannot be read, or something in it is wrong.
    """
    content = _resolved(read_yaml(path, KIND, "rows: {alone: {scheme: single}}"), path.parent)
    if "paper" in content and "parts" in content:
        raise UsageError(
            f"{str(path)!r} is a published table of several experiments; run it with `experiment reproduce {path.stem}`"
        )
    if limit is not None:
        content = _change_sources(content, lambda source: {**source, "limit": limit})
    try:
        return Experiment.model_validate(content)
    except UsageError as error:
        raise UsageError(f"{error} ({KIND} {str(path)!r})") from error


def _resolved(content: Content, folder: Path) -> Content:
    """Return the content of a file with its paths resolved against a folder."""

    def resolve(source: Content) -> Content:
        file = source.get("file")
        return {**source, "file": str(folder.resolve() / file)} if isinstance(file, str) else source

    content = _change_sources(content, resolve)
    if isinstance(common := content.get("settings"), Mapping):
        content["settings"] = _resolve_settings(common, folder)
    if isinstance(rows := content.get("rows"), Mapping):
        content["rows"] = {
            name: _resolve_settings(row, folder) if isinstance(row, Mapping) else row for name, row in rows.items()
        }
    return content


def _change_sources(content: Content, change: Callable[[Content], Content]) -> Content:
    """Return the content with each source of questions changed; a source of the wrong type is reported later."""
    sources = content.get("questions")
    if isinstance(sources, list):
        changed = [change({**source}) if isinstance(source, Mapping) else source for source in sources]
        return {**content, "questions": changed}
    return {**content, "questions": change({**sources})} if isinstance(sources, Mapping) else dict(content)


def _resolve_settings(settings: Mapping[Any, Any], folder: Path) -> Content:  # Any: parsed YAML
    """Return settings with absolute paths for files that exist in the folder; a hub id looks like a path, too."""

    def resolve(name: str, value: Any) -> Any:  # Any: parsed YAML
        if isinstance(value, list):
            return [resolve(name, item) for item in value]
        is_model_name = name == "model" and not re.search(r"/|\.gguf$", str(value))
        if name not in FILE_SETTINGS or not isinstance(value, str) or is_model_name:
            return value
        return str(path) if (path := folder.resolve() / value).exists() else value

    return {name: resolve(plain(name), value) for name, value in settings.items()}


def check_trusted(experiment: Experiment, folder: Path, trust: Trust) -> None:
    """Check that an experiment names nothing outside the folder of its file, unless that is trusted.

    Raises:
        UsageError: names the source, and the option that allows it.
    """
    for source in experiment.questions if not trust.trust_paths else ():
        outside = str(source.file) if source.file and not lies_in(folder, source.file) else None
        if name := source.hub or outside:
            raise UsageError(
                f"{KIND} names the questions {name!r}, which are not in its folder; add --trust-paths if you trust "
                "who made it"
            )
    for name, row in experiment.rows.items():  # `probe_from` names an earlier row: see `Experiment`
        trust.check_paths(row.settings.model_copy(update={"probe_from": ""}), f"row {name!r}", folder)
