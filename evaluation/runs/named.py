"""Which payloads are named, and by which message: in the log of a run, and in checkpoints of any application."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sottovoce.channels.store import DIGEST
from sottovoce.errors import RecordError, UsageError
from sottovoce.evaluation.runs.lines import wrong_in
from sottovoce.evaluation.runs.log import LOG, read
from sottovoce.evaluation.runs.saver import FILE
from sottovoce.graphs.saver import is_of_saver, kind_of, open_saver, shown, told_of

Named = dict[str, list[str]]
"""By sha256: who names it, in words."""


def runs_in(folders: Iterable[Path]) -> list[Path]:
    """The folders of all runs that lie in these, or are one of them: rows of experiments and judged ones too.

    Raises:
        UsageError: one of them is no folder.
    """
    found: dict[Path, None] = {}
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{str(folder)!r} is no folder; give one that holds runs")
        found |= dict.fromkeys(log.parent.resolve() for log in sorted(folder.rglob(LOG)))
    return list(found)


def named_by_run(folder: Path) -> Named:
    """What a run's log names, whatever became of it, and what its own checkpoints do.

    Raises:
        RecordError: log or checkpoints cannot be read.
    """
    lines, _, _ = read(folder, wrong_in)
    found = collected((each for line in lines for each in _walk(line)), str(folder.name))
    if (folder / FILE).exists():
        add(found, named_by_checkpoints(str(folder / FILE)))
    return found


def named_by_checkpoints(where: str) -> Named:
    """What all checkpoints of all threads name; a SQLite file or `postgresql://...`.

    Raises:
        UsageError: there is no such file, or the address is none.
        RecordError: they cannot be read.
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
    """Take more names in, each once."""
    for digest, names in more.items():
        found[digest] = list(dict.fromkeys([*found.get(digest, []), *names]))


def collected(pairs: Iterable[tuple[str, str]], where: str) -> Named:
    """Digests with the messages that name them, and where these are."""
    found: Named = {}
    for digest, who in pairs:
        add(found, {digest: [f"{who} in {where}" if who else where]})
    return found


def _walk(value: Any, who: str = "") -> Iterator[tuple[str, str]]:  # Any: plain JSON
    """Digests, wherever they stand under the key that references have, with the message around them."""
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
