"""Places of payloads: the directory of each run and the applications' store, with what is known to need them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sottovoce.channels.store import DIGEST, SUFFIX, PayloadStore
from sottovoce.core.any_types import JSONValue
from sottovoce.core.errors import RecordError, UsageError
from sottovoce.core.files import bytes_of
from sottovoce.runs import run_directory
from sottovoce.runs.log import checked
from sottovoce.runs.run import PAYLOADS
from sottovoce.runs.run_directory import LOG, in_use

Named = dict[str, list[str]]
"""The messages that name a payload, in words, by its sha256."""


@dataclass
class Place:
    """A directory of payloads, with everything known that names them."""

    name: str
    root: Path
    named: Named = field(default_factory=dict)
    keep_reason: str = ""
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
        yield place if place.keep_reason else Place(place.name, place.root, of_run)
    root = PayloadStore(store).root
    unknown = "" if checkpoints else "it is unknown who needs them; name all applications' checkpoints by --checkpoints"
    yield Place(str(root), root, everywhere, unknown, run=False)


def _of_run(folder: Path, checkpoints: Sequence[str]) -> Place:
    place = Place(run_directory.run_name(folder), folder / PAYLOADS)
    if link := next((each for each in (place.root, *place.root.glob("*")) if each.is_symlink()), None):
        place.keep_reason = f"{str(link)!r} is a link, and may lead to the payloads of another run"
        return place
    try:
        lines = [line for line, _ in checked(folder)]  # a damaged log may need other payloads
        place.named = collected((each for line in lines for each in _digests_in(line)), folder.name)
        place.keep_reason = "it is running" if in_use(folder) else ""
    except RecordError as error:
        place.keep_reason = str(error)
    return place


def wrong(digest: str, path: Path | None) -> str:
    """Return what is wrong with a payload's file, in words; empty if nothing is."""
    if path is None:
        return "is missing"
    try:
        found = hashlib.sha256(bytes_of(path)).hexdigest()
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return "" if found == digest else f"is damaged: the file of {size_of(path)} bytes has another digest"


def size_of(path: Path) -> int:
    """Return the size of a file in bytes; 0 if it is not a file."""
    return path.stat().st_size if path.is_file() else 0


def runs_in(folders: Iterable[Path]) -> list[Path]:
    """Return the directories of all runs in these folders, at any depth, including rows of experiments and judge runs.

    Raises:
        UsageError: one of them is not a folder.
    """
    folders_of_runs: dict[Path, None] = {}
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{str(folder)!r} is not a folder; give one that contains runs")
        folders_of_runs |= dict.fromkeys(log.parent.resolve() for log in sorted(folder.rglob(LOG)))
    return list(folders_of_runs)


def named_by_checkpoints(where: str) -> Named:
    """Return the payloads that the checkpoints of all threads name; `where` is a SQLite file or `postgresql://...`.

    Raises:
        UsageError: there is no such file, or the address is not valid.
        RecordError: the checkpoints cannot be read.
    """
    found: Named = {}
    name = where.rpartition("@")[2]  # without a password
    try:
        with _saver(where) as saver:
            for each in saver.list(None):
                thread = f"thread {each.config['configurable']['thread_id']!r} of {name}"
                values = [each.checkpoint["channel_values"], [value for *_, value in each.pending_writes or []]]
                add(found, collected(_digests_in(values), thread))
    except UsageError:
        raise
    except Exception as error:  # from None: a database's own words may quote the whole address
        raise RecordError(f"the checkpoints in {name!r} cannot be read ({type(error).__name__})") from None
    return found


def _saver(where: str) -> AbstractContextManager[Any]:
    """Return LangGraph's own context manager of the saver that has these checkpoints."""
    try:
        if re.match("postgres(ql)?://", where):
            from langgraph.checkpoint.postgres import PostgresSaver

            return PostgresSaver.from_conn_string(where)
        from langgraph.checkpoint.sqlite import SqliteSaver
    except ImportError as error:
        raise UsageError(f"these checkpoints need the extra 'savers', which is not installed: {error}") from error
    if not Path(where).is_file():
        raise UsageError(f"there is no file of checkpoints {where!r}; give a SQLite file, or postgresql://...")
    return SqliteSaver.from_conn_string(where)


def add(names_by_digest: Named, more: Named) -> None:
    """Add `more` to `names_by_digest`, each name once."""
    for digest, names in more.items():
        names_by_digest[digest] = list(dict.fromkeys([*names_by_digest.get(digest, []), *names]))


def collected(pairs: Iterable[tuple[str, str]], where: str) -> Named:
    """Return digests with the messages that name them, and where these are."""
    names_by_digest: Named = {}
    for digest, who in pairs:
        add(names_by_digest, {digest: [f"{who} in {where}" if who else where]})
    return names_by_digest


def _digests_in(value: JSONValue, who: str = "") -> Iterator[tuple[str, str]]:
    """Yield each digest under the key `sha256`, at any depth, with the message around it."""
    if isinstance(value, Mapping):
        if {"agent", "round"} <= value.keys():
            who = f"{value['agent']}, round {value['round']},"
        for key, item in value.items():
            if key == "sha256" and isinstance(item, str) and DIGEST.fullmatch(item):
                yield item, who
            else:
                yield from _digests_in(item, who)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _digests_in(item, who)
