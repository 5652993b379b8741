"""A Postgres server of the tests' own: Debian's, in a temporary folder, on a free port of this machine alone."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver

from tests.needs import missing

PASSWORD = "p@ss/word:1"
QUOTED = "p%40ss%2Fword%3A1"
FAST = (
    "fsync=off",
    "shared_buffers=16MB",
    "max_connections=20",
    "listen_addresses=127.0.0.1",
    "log_min_messages=panic",
)
DATABASES = count()


class Server:
    """A server that runs."""

    def __init__(self, port: int) -> None:
        self.port = port

    def database(self) -> str:
        """The address of a new, empty database."""
        name = f"of_test_{next(DATABASES)}"
        with psycopg.connect(self.address(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.address(name)

    def address(self, name: str = "postgres", password: str = QUOTED) -> str:
        return f"postgresql://tester:{password}@127.0.0.1:{self.port}/{name}"


@contextmanager
def server() -> Iterator[Server]:
    """Start one, and stop it; the test is skipped without Debian's package, see `needs`."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not programs:
        missing("Postgres", "postgresql")
    folder = Path(tempfile.mkdtemp(prefix="sottovoce-postgres-"))
    (folder / "password").write_text(PASSWORD)
    as_other: tuple[str, ...] = ()
    if os.geteuid() == 0:  # initdb refuses root
        as_other = ("setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups")
        for path in (folder, folder / "password"):
            shutil.chown(path, "postgres")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    data, quiet = folder / "data", subprocess.DEVNULL
    told = ["-U", "tester", "--auth=scram-sha-256", f"--pwfile={folder / 'password'}", "--no-sync", "--encoding=UTF8"]
    subprocess.run([*as_other, programs[-1], "-D", data, *told], check=True, stdout=quiet, cwd=folder)
    options = [word for option in (*FAST, f"unix_socket_directories={folder}") for word in ("-c", option)]
    running = subprocess.Popen(
        [*as_other, programs[-1].with_name("postgres"), "-D", data, "-p", str(port), *options],
        stdout=quiet,
        stderr=quiet,
        cwd=folder,
    )
    try:
        yield _answering(Server(port), running)
    finally:
        running.terminate()  # waits for nobody's connection longer than a second
        try:
            running.wait(5)
        except subprocess.TimeoutExpired:
            running.send_signal(3)  # SIGQUIT: Postgres' own way to stop at once
            running.wait(600)
        shutil.rmtree(folder, ignore_errors=True)


def _answering(found: Server, running: subprocess.Popen[bytes]) -> Server:
    until = time.monotonic() + 600
    while True:
        try:
            psycopg.connect(found.address()).close()
            return found
        except psycopg.OperationalError:
            assert running.poll() is None and time.monotonic() < until, "the server does not start"
            time.sleep(0.05)


@contextmanager
def open_saver(where: str) -> Iterator[BaseCheckpointSaver[Any]]:
    """A saver in a file, or in a database."""
    kind: Any = PostgresSaver if where.startswith("postgresql://") else SqliteSaver
    with kind.from_conn_string(where) as saver:
        saver.setup()
        yield saver
