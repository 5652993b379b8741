"""A Postgres server of the tests' own: Debian's, in a temporary folder, on a free port of this machine alone."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg

from tests.shared import missing

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
    """Start a server, and stop it at the end."""
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
    options = ["-U", "tester", "--auth=scram-sha-256", f"--pwfile={folder / 'password'}", "--no-sync", "--encoding=UTF8"]
    subprocess.run([*as_other, programs[-1], "-D", data, *options], check=True, stdout=quiet, cwd=folder)
    parameters = [word for option in (*FAST, f"unix_socket_directories={folder}") for word in ("-c", option)]
    running = subprocess.Popen(
        [*as_other, programs[-1].with_name("postgres"), "-D", data, "-p", str(port), *parameters],
        stdout=quiet,
        stderr=quiet,
        cwd=folder,
    )
    try:
        yield _answering(Server(port), running)
    finally:
        running.send_signal(signal.SIGQUIT)  # stops at once, with connections open
        running.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _answering(server: Server, running: subprocess.Popen[bytes]) -> Server:
    while True:
        try:
            psycopg.connect(server.address()).close()
            return server
        except psycopg.OperationalError:
            assert running.poll() is None, "the server does not start"
            time.sleep(0.05)
