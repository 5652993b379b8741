"""The store of applications, and the payloads in it that their checkpoints refer to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from sottovoce.channels.store import DIGEST, SUFFIX, PayloadStore
from sottovoce.core.any_types import JSONValue
from sottovoce.core.errors import RecordError, UsageError


def unneeded(store: Path | None, checkpoints: Sequence[str]) -> tuple[Path, list[Path]]:
    """Return the folder of a store, and its payloads that no checkpoint names, with incomplete files; own keys stay.

    Raises:
        UsageError: no checkpoints are given, or a file of them does not exist.
        RecordError: the checkpoints cannot be read.
    """
    root = PayloadStore(store).root
    if not checkpoints:
        why = "it is unknown which payloads are needed"
        raise UsageError(f"{str(root)!r}: {why}; name the checkpoints of all applications by `checkpoints=`")
    named = set[str]().union(*map(named_by_checkpoints, checkpoints))
    stored = {path: path.name.removesuffix(SUFFIX) for path in root.glob(f"*/*{SUFFIX}")}
    unnamed = [path for path, key in stored.items() if DIGEST.fullmatch(key) and key not in named]
    return root, [path for path in (*unnamed, *root.glob("*/*.part")) if path.is_file()]


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
