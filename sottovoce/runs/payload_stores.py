"""Places of payloads: the directory of each run and the applications' store, with what is known to need them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sottovoce.channels.store import DIGEST, SUFFIX, default_root
from sottovoce.core.errors import RecordError
from sottovoce.core.files import bytes_of, opened
from sottovoce.graphs.runtime.saver import kind_of
from sottovoce.runs import run_directory
from sottovoce.runs.log import in_use
from sottovoce.runs.payload_references import Named, add, named_by_checkpoints, named_by_run, runs_in
from sottovoce.runs.read import load_run
from sottovoce.runs.run import PAYLOADS


@dataclass
class Place:
    """A directory of payloads, with everything known that names them."""

    name: str
    root: Path
    named: Named = field(default_factory=dict)
    held: str = ""
    """The reason why nothing may be deleted there; empty if it is known what is needed."""
    run: bool = True
    """True if it belongs to a run: then every named payload must be there."""

    def files(self) -> dict[str, Path]:
        """Return the payload files by digest, sorted; files under an application's own keys are left out."""
        found = {path.name.removesuffix(SUFFIX): path for path in sorted(self.root.glob(f"*/*{SUFFIX}"))}
        return {digest: path for digest, path in found.items() if DIGEST.fullmatch(digest)}

    def unfinished(self) -> list[Path]:
        """Return the incomplete files that killed processes left."""
        return sorted(self.root.glob("*/*.part"))


def places(runs: Sequence[Path], store: Path | None, checkpoints: Sequence[str]) -> Iterator[Place]:
    """Yield the places of all runs, in the default place and in the folders `runs`, then the applications' store.

    Raises:
        UsageError: a folder or a file of checkpoints does not exist.
        RecordError: the checkpoints cannot be read.
    """
    of_applications: Named = {}
    for each in checkpoints:
        add(of_applications, named_by_checkpoints(each))
    everywhere: Named = {}
    add(everywhere, of_applications)
    for folder in runs_in([*([run_directory.runs_folder()] if run_directory.runs_folder().exists() else []), *runs]):
        place = _of_run(folder, checkpoints)
        add(everywhere, place.named)
        add(of_run := dict(of_applications), place.named)
        yield place if place.held else Place(place.name, place.root, of_run)
    root = store or default_root()
    unknown = "" if checkpoints else "it is unknown who needs them; name all applications' checkpoints by --checkpoints"
    yield Place(str(root), root, everywhere, unknown, run=False)


def _of_run(folder: Path, checkpoints: Sequence[str]) -> Place:
    place = Place(run_directory.run_name(folder), folder / PAYLOADS)
    if link := next((each for each in (place.root, *place.root.glob("*")) if each.is_symlink()), None):
        place.held = f"{str(link)!r} is a link, and may lead to the payloads of another run"
        return place
    try:
        place.named = named_by_run(folder)
        place.held = "it is running" if in_use(folder) else _in_database(folder, checkpoints)
    except RecordError as error:
        place.held = str(error)
    return place


def _in_database(folder: Path, checkpoints: Sequence[str]) -> str:
    """Return why nothing of a run may be deleted if its checkpoints are in a database that was not named; else ""."""
    run = load_run(folder)
    named = any(kind_of(each) == "postgres" for each in checkpoints)
    if run.saver["kind"] != "postgres" or not run.unfinished or named:
        return ""
    return "it is not over, and its checkpoints are in a database; name that by --checkpoints"


def wrong(digest: str, path: Path | None) -> str:
    """Return what is wrong with a payload's file, in words; empty if nothing is."""
    if path is None:
        return "is missing"
    try:
        found = hashlib.sha256(bytes_of(path)).hexdigest()
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return "" if found == digest else f"is damaged: the file of {size_of(path)} bytes has another digest"


def protocol_of(path: Path) -> str:
    """Return the protocol in the header of a payload's file; "?" if it cannot be read."""
    try:
        with opened(path) as file:
            head = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        (label,) = head["__metadata__"].values()
        return str(json.loads(label)["protocol"])
    except (OSError, ValueError, KeyError, TypeError, MemoryError, OverflowError):
        return "?"


def size_of(path: Path) -> int:
    """Return the size of a file in bytes; 0 if it is not a file."""
    return path.stat().st_size if path.is_file() else 0
