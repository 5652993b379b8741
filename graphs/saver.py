"""Where a graph's checkpoints lie: in memory, in a SQLite file, or in a Postgres database.

    with open_saver("debates.sqlite") as saver:
        graph = create_debate().compile(checkpointer=saver)

The state of our graphs is plain JSON: what is not is refused on the way in, and nothing is ever unpickled.
Nothing here imports langgraph before a saver is opened: the command line reads the kinds to check what was typed.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import AsyncExitStack, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

from sottovoce.errors import RecordError, UsageError, first_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langgraph.checkpoint.base import BaseCheckpointSaver

Kind = Literal["memory", "sqlite", "postgres"]
POSTGRES = re.compile(r"postgres(ql)?://")
URL = re.compile(r"[a-z+]+://")
PATIENCE = 10
"""Seconds that a server may take to answer, unless the address says otherwise (`?connect_timeout=60`)."""


def kind_of(where: str | Path) -> Kind:
    """Which kind of saver a place asks for: `memory`, an address `postgresql://...`, or a file.

    Raises:
        UsageError: it is the address of something else.
    """
    told = str(where)
    if told == "memory":
        return "memory"
    if POSTGRES.match(told):
        return "postgres"
    typed = isinstance(where, str | Path)
    if not typed or not told or "\0" in told or URL.match(told):
        raise UsageError(f"a saver is 'memory', a file, or postgresql://USER@HOST/DATABASE; {shown(told)!r} is none")
    return "sqlite"


def shown(where: str | Path) -> str:
    """The place as errors may name it: without a password, nor anything behind a question mark."""
    scheme, found, rest = str(where).partition("://")
    return f"{scheme}://" + re.sub(r"^([^:/@]*):.*@", r"\1@", rest).partition("?")[0] if found else scheme


def is_of_saver(error: BaseException) -> bool:
    """Whether checkpoints could not be written or read: an error of SQLite or of Postgres."""
    return isinstance(error, sqlite3.Error) or type(error).__module__.partition(".")[0] == "psycopg"


def told_of(error: Exception, where: str | Path) -> str:
    """What a database says in one line, without the address's password."""
    line = first_line(error)
    for secret in re.findall(r"://[^:/@]*:(.*)@|password=([^&]+)", str(where)):
        for word in filter(None, secret):
            line = line.replace(unquote(word), "***").replace(word, "***")
    return line


class open_saver:  # used like the function `open`
    """A checkpoint saver, ready for use: by `with` for graphs that are invoked, by `async with` for `ainvoke`.

    Args:
        where: `memory`; a SQLite file, made where there is none; or `postgresql://USER:PASSWORD@HOST:PORT/DATABASE`,
            whose tables are made where there are none. What the address leaves out libpq finds, the password in
            `PGPASSWORD` or `~/.pgpass`.
        also: Another base of the saver's class, before LangGraph's own.

    Raises:
        UsageError: `where` is none of these, or the extra `postgres` is not installed.
        RecordError: the file or the database cannot be opened; a password is not told.
    """

    def __init__(self, where: str | Path = "memory", *, also: type | None = None) -> None:
        self._where, self._kind, self._also = where, kind_of(where), also
        self._open, self._aopen = ExitStack(), AsyncExitStack()

    def __enter__(self) -> BaseCheckpointSaver[Any]:
        with ExitStack() as stack, self._told():
            saver = stack.enter_context(self._manager(_kinds(self._kind)[0]))
            _make_plain(saver)
            if self._kind != "memory":
                saver.setup()
            self._open = stack.pop_all()
        return saver  # type: ignore[no-any-return]  # of a class that is made below

    def __exit__(self, *error: Any) -> None:
        self._open.__exit__(*error)

    async def __aenter__(self) -> BaseCheckpointSaver[Any]:
        with self._told():
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

    def _manager(self, kind: type) -> Any:  # Any: a context manager, sync or async
        """Of LangGraph's own opening and closing."""
        made: Any = type(kind.__name__, (self._also, kind), {}) if self._also else kind
        if self._kind == "memory":
            return nullcontext(made())
        if self._kind == "sqlite":
            # aiosqlite (0.22) leaves a thread behind where a file cannot be opened.
            sqlite3.connect(self._where).close()
            return made.from_conn_string(str(self._where))
        return made.from_conn_string(_address(str(self._where)))

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What a database says becomes one line of ours."""
        try:
            yield
        except Exception as error:
            if not is_of_saver(error):
                raise
            why = told_of(error, self._where)
            # From None: what a database says may quote the whole address.
            raise RecordError(f"the checkpoints in {shown(self._where)!r} cannot be opened: {why}") from None


def _kinds(kind: Kind) -> tuple[type, type]:
    """LangGraph's savers of a kind: of sync calls, and of async ones."""
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
    """Let go of the file: of a write that a graph left behind it, and of one that was cancelled half-way.

    Closing does not end those while anything (a traceback) holds their cursor: the file would stay locked to others.
    """
    async with saver.lock:
        await saver.conn.rollback()


def _make_plain(saver: Any) -> None:  # Any: of any kind
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    saver.serde = JsonPlusSerializer(allowed_msgpack_modules=None)


def _address(url: str) -> str:
    """As libpq reads it, with an end to its patience.

    Raises:
        UsageError: it cannot be read.
    """
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    try:
        told: dict[str, Any] = conninfo_to_dict(url)  # Any: texts and numbers
    except ProgrammingError:  # what it says may quote the password
        raise UsageError(
            f"{shown(url)!r} is no address of a database; expected postgresql://USER:PASSWORD@HOST:PORT/DATABASE, "
            "special characters in the password as %2F and its like"
        ) from None
    return make_conninfo(**{"connect_timeout": PATIENCE, "application_name": "sottovoce", **told})
