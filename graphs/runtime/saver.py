"""Checkpoint savers: in memory, in a SQLite file, or in a Postgres database.

    with open_saver("debates.sqlite") as saver:
        graph = create_debate().compile(checkpointer=saver)

The state of our graphs is plain JSON: other values are refused when they are written, and nothing is ever unpickled.
Nothing here imports langgraph before a saver is opened.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import AsyncExitStack, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

from sottovoce.core.errors import RecordError, UsageError, first_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langgraph.checkpoint.base import BaseCheckpointSaver

Kind = Literal["memory", "sqlite", "postgres"]
POSTGRES = re.compile(r"postgres(ql)?://")
URL = re.compile(r"[a-z+]+://")
PATIENCE = 10
"""Seconds that a server may take to answer, unless the address sets them (`?connect_timeout=60`)."""


def kind_of(where: str | Path) -> Kind:
    """Return the kind of saver for `memory`, an address `postgresql://...`, or a file.

    Raises:
        UsageError: it is none of these, for example another kind of address.
    """
    told = str(where)
    if told == "memory":
        return "memory"
    if POSTGRES.match(told):
        return "postgres"
    typed = isinstance(where, str | Path)
    if not typed or not told or "\0" in told or URL.match(told):
        raise UsageError(f"a saver is 'memory', a file, or postgresql://USER@HOST/DATABASE; got {shown(told)!r}")
    return "sqlite"


def shown(where: str | Path) -> str:
    """Return the place as errors may show it: without the password and anything after a question mark."""
    scheme, found, rest = str(where).partition("://")
    return f"{scheme}://" + re.sub(r"^([^:/@]*):.*@", r"\1@", rest).partition("?")[0] if found else scheme


def is_of_saver(error: BaseException) -> bool:
    """Return whether an error is one of SQLite or of Postgres: checkpoints could not be written or read."""
    return isinstance(error, sqlite3.Error) or type(error).__module__.partition(".")[0] == "psycopg"


def told_of(error: Exception, where: str | Path) -> str:
    """Return the first line of a database's error, with the address's password hidden."""
    line = first_line(error)
    for secret in re.findall(r"://[^:/@]*:(.*)@|password=([^&]+)", str(where)):
        for word in filter(None, secret):
            line = line.replace(unquote(word), "***").replace(word, "***")
    return line


class open_saver:  # used like the function `open`
    """A checkpoint saver, ready for use: in a `with` statement for `invoke`, in `async with` for `ainvoke`.

    Args:
        where: `memory`; a SQLite file, created if it is missing; or `postgresql://USER:PASSWORD@HOST:PORT/DATABASE`,
            where missing tables are created. libpq finds what the address leaves out: the password, for example, in
            `PGPASSWORD` or `~/.pgpass`.

    Raises:
        UsageError: `where` is none of these, or the extra `postgres` is not installed.
        RecordError: the file or the database cannot be opened; the message never shows a password.
    """

    def __init__(self, where: str | Path = "memory") -> None:
        self._where, self._kind = where, kind_of(where)
        self._open, self._aopen = ExitStack(), AsyncExitStack()

    def __enter__(self) -> BaseCheckpointSaver[Any]:
        with ExitStack() as stack, self._database_errors():
            saver = stack.enter_context(self._manager(_kinds(self._kind)[0]))
            _make_plain(saver)
            if self._kind != "memory":
                saver.setup()
            self._open = stack.pop_all()
        return saver  # type: ignore[no-any-return]  # of a class that is created below

    def __exit__(self, *error: Any) -> None:
        self._open.__exit__(*error)

    async def __aenter__(self) -> BaseCheckpointSaver[Any]:
        with self._database_errors():
            async with AsyncExitStack() as stack:
                saver = await stack.enter_async_context(self._manager(_kinds(self._kind)[1]))
                _make_plain(saver)
                if self._kind == "sqlite":
                    stack.push_async_callback(_settle, saver)
                if self._kind != "memory":
                    await saver.setup()
                self._aopen = stack.pop_all()
        return saver  # type: ignore[no-any-return]  # likewise

    async def __aexit__(self, *error: Any) -> None:
        await self._aopen.__aexit__(*error)

    def _manager(self, kind: Any) -> Any:  # Any: a class, and its context manager, sync or async
        """Return LangGraph's own context manager of the saver."""
        if self._kind == "memory":
            return nullcontext(kind())
        if self._kind == "sqlite":
            # aiosqlite (0.22) leaves a thread behind if a file cannot be opened.
            sqlite3.connect(self._where).close()
            return kind.from_conn_string(str(self._where))
        return kind.from_conn_string(_address(str(self._where)))

    @contextmanager
    def _database_errors(self) -> Iterator[None]:
        """Turn an error of the database into a RecordError of one line."""
        try:
            yield
        except Exception as error:
            if not is_of_saver(error):
                raise
            why = told_of(error, self._where)
            # From None: the database's error may quote the whole address.
            raise RecordError(f"the checkpoints in {shown(self._where)!r} cannot be opened: {why}") from None


def _kinds(kind: Kind) -> tuple[type, type]:
    """Return LangGraph's saver classes of a kind: for sync calls, and for async ones."""
    if kind == "memory":
        from langgraph.checkpoint.memory import InMemorySaver

        return InMemorySaver, InMemorySaver
    if kind == "sqlite":
        from langgraph.checkpoint.sqlite import SqliteSaver
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        return SqliteSaver, AsyncSqliteSaver
    try:
        from langgraph.checkpoint.postgres import PostgresSaver
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    except ImportError as error:
        raise UsageError(
            "checkpoints in Postgres need the extra 'postgres', which is not installed: "
            "pip install langgraph-checkpoint-postgres 'psycopg[binary]'"
        ) from error
    return PostgresSaver, AsyncPostgresSaver


async def _settle(saver: Any) -> None:  # Any: of SQLite, async
    """Roll back unfinished and cancelled writes, which would keep the file locked.

    Closing does not end them while anything (such as a traceback) refers to their cursor.
    """
    async with saver.lock:
        await saver.conn.rollback()


def _make_plain(saver: Any) -> None:  # Any: of any kind
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    saver.serde = JsonPlusSerializer(allowed_msgpack_modules=None)


def _address(url: str) -> str:
    """Return the address as libpq parses it, with a connection timeout.

    Raises:
        UsageError: it cannot be parsed.
    """
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    try:
        told: dict[str, Any] = conninfo_to_dict(url)  # Any: texts and numbers
    except ProgrammingError:  # its message may quote the password
        raise UsageError(
            f"{shown(url)!r} is not a database address; expected postgresql://USER:PASSWORD@HOST:PORT/DATABASE, "
            "with special characters in the password escaped, such as %2F"
        ) from None
    return make_conninfo(**{"connect_timeout": PATIENCE, "application_name": "sottovoce", **told})
