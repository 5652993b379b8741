"""Payloads that are in use, with the messages that name them: in a run's log, or in an application's checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sottovoce.channels.store import DIGEST
from sottovoce.core.errors import RecordError, UsageError
from sottovoce.graphs.runtime.saver import is_of_saver, kind_of, open_saver, shown, told_of
from sottovoce.runs.checkpoints import FILE
from sottovoce.runs.log import LOG, read
from sottovoce.runs.log_lines import wrong_in

Named = dict[str, list[str]]
"""The messages that name a payload, in words, by its sha256."""


def runs_in(folders: Iterable[Path]) -> list[Path]:
    """Return the directories of all runs in these folders, at any depth: also rows of experiments and judge runs.

    Raises:
        UsageError: one of them is not a folder.
    """
    found: dict[Path, None] = {}
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{str(folder)!r} is not a folder; give one that contains runs")
        found |= dict.fromkeys(log.parent.resolve() for log in sorted(folder.rglob(LOG)))
    return list(found)


def named_by_run(folder: Path) -> Named:
    """Return the payloads that a run's log and its own checkpoints name, withdrawn messages included.

    Raises:
        RecordError: the log or the checkpoints cannot be read.
    """
    lines, _, _ = read(folder, wrong_in)
    found = collected((each for line in lines for each in _walk(line)), str(folder.name))
    if (folder / FILE).exists():
        add(found, named_by_checkpoints(str(folder / FILE)))
    return found


def named_by_checkpoints(where: str) -> Named:
    """Return the payloads that the checkpoints of all threads name; `where` is a SQLite file or `postgresql://...`.

    Raises:
        UsageError: there is no such file, or the address is not valid.
        RecordError: the checkpoints cannot be read.
    """
    if kind_of(where) != "postgres" and not Path(where).is_file():
        raise UsageError(f"there is no file of checkpoints {where!r}; give a SQLite file, or postgresql://...")
    found: Named = {}
    try:
        with open_saver(where) as saver:
            for each in saver.list(None):
                thread = f"thread {each.config['configurable']['thread_id']!r} of {shown(where)}"
                values = [each.checkpoint["channel_values"], [value for *_, value in each.pending_writes or []]]
                add(found, collected(_walk(values), thread))
    except Exception as error:
        if isinstance(error, (RecordError, UsageError)):
            raise
        why = told_of(error, where) if is_of_saver(error) else "they are not plain JSON"
        raise RecordError(f"the checkpoints in {shown(where)!r} cannot be read: {why}") from None
    return found


def add(found: Named, more: Named) -> None:
    """Add `more` to `found`, each name once."""
    for digest, names in more.items():
        found[digest] = list(dict.fromkeys([*found.get(digest, []), *names]))


def collected(pairs: Iterable[tuple[str, str]], where: str) -> Named:
    """Return digests with the messages that name them, and where these are."""
    found: Named = {}
    for digest, who in pairs:
        add(found, {digest: [f"{who} in {where}" if who else where]})
    return found


def _walk(value: Any, who: str = "") -> Iterator[tuple[str, str]]:  # Any: plain JSON
    """Yield each digest under the key `sha256`, at any depth, with the message around it."""
    if isinstance(value, Mapping):
        if {"agent", "round"} <= value.keys():
            who = f"{value['agent']}, round {value['round']},"
        for key, each in value.items():
            if key == "sha256" and isinstance(each, str) and DIGEST.fullmatch(each):
                yield each, who
            else:
                yield from _walk(each, who)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _walk(each, who)
