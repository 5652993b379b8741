"""A run as a typed record: what was asked, what was said, how it ended; and its file, `RUN/run.json`.

The file is written while the run goes on, whole each time, so that a killed run shows what it had.
Payloads lie beside it under `RUN/payloads`, so that a run's folder holds all of it.
"""

from __future__ import annotations

import json
import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError, field_serializer

import sottovoce
from sottovoce.channels.message import Message
from sottovoce.errors import RecordError, UsageError
from sottovoce.nodes.state import JSON, Decision, Question, Vote

FORMAT = "sottovoce.run"
VERSION = 1
FILE = "run.json"
PAYLOADS = "payloads"
ASIDE = ("summarise", "list_candidates")
"""Acts that state no answer of the agent's own."""
LIBRARIES = ("torch", "transformers", "langgraph")


class Speaker(BaseModel):
    """The model behind an agent, told apart from others by its weights."""

    model: str
    weights: str
    """`LoadedModel.weights_key`"""
    vocabulary: str
    """`LoadedModel.vocabulary_key`"""


class Usage(BaseModel):
    """What the run cost."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0


class Level(BaseModel):
    """Who discusses with whom, until groups send representatives to the next level (CMD)."""

    round: int
    """0-based: the first on this level."""
    groups: list[list[str]]


class Count(BaseModel):
    """The votes of a round that was counted."""

    round: int
    votes: list[Vote]


class Run(BaseModel):
    """One run of a scheme on one question."""

    format: str = FORMAT
    version: int = VERSION
    status: Literal["running", "done", "failed", "stopped"] = "running"
    error: str | None = None
    """The line that says why it failed."""
    scheme: str
    settings: JSON
    question: Question
    origin: str | None = None
    """Where the question is from; None where a person asked it."""
    versions: dict[str, str] = Field(default_factory=lambda: versions())
    models: dict[str, Speaker] = {}
    """By agent; hosted models have no entry."""
    messages: list[Message] = []
    """In the board's order; where an agent was asked again, both attempts."""
    levels: list[Level] = []
    """The first holds all agents, in order; [] in records that are older than levels."""
    counts: list[Count] = []
    """Of schemes that vote after a round."""
    notes: list[str] = []
    decision: Decision | None = None
    usage: Usage = Usage()
    started: str = Field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    seconds: float = 0.0

    @field_serializer("messages")
    def _plain(self, messages: list[Message]) -> list[JSON]:
        """As everywhere else; pydantic alone would write counts of tokens as floats."""
        return [message.to_dict() for message in messages]

    def to_json(self) -> str:
        """The record as it is saved and printed."""
        return self.model_dump_json(indent=2) + "\n"

    def said(self, agent: str, round: int | None = None) -> Message | None:
        """An agent's last message, of a round or of all, that states an answer; of several attempts the latest."""
        spoken = [
            message
            for message in self.messages
            if message.agent == agent and message.act not in ASIDE and round in (None, message.round)
        ]
        return spoken[-1] if spoken else None


def versions() -> dict[str, str]:
    """What a run depends on."""
    ours = {"sottovoce": sottovoce.__version__, "python": platform.python_version()}
    return ours | {name: version(name) for name in LIBRARIES}


def check_free(folder: Path) -> None:
    """Refuse a folder that a run cannot be saved in, before it starts.

    Raises:
        UsageError: it holds a run already, or no folder can be made there.
    """
    if (folder / FILE).exists():
        raise UsageError(f"{str(folder)!r} holds a run already; choose another folder for --save")
    check_writable(folder / FILE, "--save", make=True)


def check_writable(file: Path, option: str, *, make: bool = False) -> None:
    """Refuse a file that could not be written; `make` allows for folders that do not exist yet.

    Raises:
        UsageError: it is a folder, its folder does not exist, or must not be written to.
    """
    folder = file.parent
    while make and not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if file.is_dir():
        raise UsageError(f"{option} {str(file)!r} is a folder; give a file")
    if not folder.is_dir():
        raise UsageError(f"{option} {str(file)!r} cannot be written: {str(folder)!r} is no folder")
    if not os.access(file if file.exists() else folder, os.W_OK):
        raise UsageError(f"{option} {str(file)!r} cannot be written: no permission")


def save(run: Run, folder: Path) -> None:
    """Write the record, making its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / FILE, run.to_json())


def discard(folder: Path) -> None:
    """Take back the record of a run that never began, and its folder if nothing else is in it."""
    (folder / FILE).unlink(missing_ok=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def write(path: Path, text: str) -> None:
    """Write a file, whole or not at all.

    Raises:
        RecordError: the file system refused, e.g. because it is full.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    special = path.exists() and not path.is_file()  # /dev/stdout, a pipe: nothing to put another file in the place of
    try:
        (path if special else unfinished).write_text(text, encoding="utf-8", errors="backslashreplace")
        if not special:
            os.replace(unfinished, path)
    except OSError as error:
        raise RecordError(f"{str(path)!r} cannot be written: {error.strerror}") from error
    finally:
        unfinished.unlink(missing_ok=True)


def load_run(folder: Path | str) -> Run:
    """Read a saved run; `PayloadStore(folder / "payloads")` has its tensors.

    Raises:
        RecordError: there is no run, it is damaged, or it was written by a newer version.
    """
    path = Path(folder) / FILE
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))  # Any: JSON as it comes
    except OSError as error:
        raise RecordError(f"{str(folder)!r} holds no run: {path.name} cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise RecordError(f"run {str(path)!r} is damaged: {error}") from error
    found = data.get("format") if isinstance(data, dict) else None
    if found != FORMAT:
        raise RecordError(f"{str(path)!r} is no run: its format is {found!r}; expected {FORMAT!r}")
    if data.get("version") != VERSION:
        raise RecordError(f"run {str(path)!r} has version {data.get('version')!r}; this program reads {VERSION}")
    try:
        return Run.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(step) for step in first["loc"])
        raise RecordError(f"run {str(path)!r} is damaged: {where}: {first['msg']}") from error
