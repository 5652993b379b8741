"""Places of payloads: the directory of each run and the applications' store, with what is known to need them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sottovoce.channels.store import DIGEST, SUFFIX, PayloadStore
from sottovoce.core.any_types import JSONValue
from sottovoce.core.errors import RecordError, UsageError
from sottovoce.runs import run_directory
from sottovoce.runs.log import checked
from sottovoce.runs.run import PAYLOADS
from sottovoce.runs.run_directory import LOG, in_use


@dataclass
class Place:
    """A directory of payloads, with everything known that names them."""

    name: str
    root: Path
    named: Set[str] = frozenset()
    """The sha256 of each payload that something names."""
    keep_reason: str = ""
    """The reason why nothing may be deleted there; empty if it is known what is needed."""

    def unneeded(self) -> list[Path]:
        """Return the files that nothing names, and incomplete ones of killed processes; an application's keys stay."""
        stored = {path: path.name.removesuffix(SUFFIX) for path in self.root.glob(f"*/*{SUFFIX}")}
        unnamed = [path for path, key in stored.items() if DIGEST.fullmatch(key) and key not in self.named]
        return [path for path in (*unnamed, *self.root.glob("*/*.part")) if path.is_file()]


def places(runs: Sequence[Path], store: Path | None, checkpoints: Sequence[str]) -> Iterator[Place]:
    """Yield the places of all runs, in the default place and in the folders `runs`, then the applications' store.

    Raises:
        UsageError: a folder or a file of checkpoints does not exist.
        RecordError: the checkpoints cannot be read.
    """
    of_applications = set[str]().union(*map(named_by_checkpoints, checkpoints))
    everywhere = set(of_applications)
    for folder in runs_in([*([run_directory.runs_folder()] if run_directory.runs_folder().exists() else []), *runs]):
        place = _of_run(folder)
        everywhere |= place.named
        place.named |= of_applications
        yield place
    root = PayloadStore(store).root
    unknown = "" if checkpoints else "it is unknown who needs them; name all applications' checkpoints by --checkpoints"
    yield Place(str(root), root, everywhere, unknown)


def _of_run(folder: Path) -> Place:
    place = Place(run_directory.run_name(folder), folder / PAYLOADS)
    if link := next((each for each in (place.root, *place.root.glob("*")) if each.is_symlink()), None):
        place.keep_reason = f"{str(link)!r} is a link, and may lead to the payloads of another run"
        return place
    try:
        place.named = set(_digests_in([line for line, _ in checked(folder)]))  # a damaged log may need other payloads
        place.keep_reason = "it is running" if in_use(folder) else ""
    except RecordError as error:
        place.keep_reason = str(error)
    return place


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


def named_by_checkpoints(where: str) -> set[str]:
    """Return the sha256 of each payload that checkpoints name, those in a SQLite file or at `postgresql://...`.

    Raises:
        UsageError: there is no such file, or the address is not valid.
        RecordError: the checkpoints cannot be read.
    """
    named = set[str]()
    try:
        with _saver(where) as saver:
            for each in saver.list(None):
                values = [each.checkpoint["channel_values"], [value for *_, value in each.pending_writes or []]]
                named.update(_digests_in(values))
    except UsageError:
        raise
    except Exception as error:  # from None: a database's own words may quote the whole address
        name = where.rpartition("@")[2]  # without a password
        raise RecordError(f"the checkpoints in {name!r} cannot be read ({type(error).__name__})") from None
    return named


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


def _digests_in(value: JSONValue) -> Iterator[str]:
    """Yield each digest under the key `sha256`, at any depth."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key == "sha256" and isinstance(item, str) and DIGEST.fullmatch(item):
                yield item
            else:
                yield from _digests_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _digests_in(item)
