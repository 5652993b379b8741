"""Programs that mean harm, and the bait that they are set upon."""

from __future__ import annotations

import re
import secrets
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from sottovoce.environments.sandbox import Limits, Outcome, run

LIMITS = Limits(
    seconds=1.0,  # of programs that go on until they are ended
    memory=128 << 20,
    processes=8,
    file_size=1 << 20,
    open_files=64,
    scratch=4 << 20,
    output=16 << 10,
)
PATIENCE = 60.0
"""Seconds of the others, so that a busy machine changes no outcome."""
AT_ONCE = 3
"""Programs under way together: many only wait."""
HEAD = re.compile(r"^=== (.+?) \| (.+?) \| .+\n", re.MULTILINE)
SECRET = "SOTTOVOCE_SECRET"
INSIDE = "canary"


@dataclass(frozen=True)
class Hostile:
    """A program, and how it may end."""

    name: str
    ends: tuple[str, ...]
    source: str

    @property
    def limits(self) -> Limits:
        """What it may use."""
        return LIMITS if "timeout" in self.ends else replace(LIMITS, seconds=PATIENCE)


def corpus() -> list[Hostile]:
    """All of them, in the order of their file."""
    _, *parts = HEAD.split(Path(__file__).with_name("hostile.txt").read_text(encoding="utf-8"))
    rows = [parts[at : at + 3] for at in range(0, len(parts), 3)]
    return [Hostile(name, tuple(ends.split(", ")), text) for name, ends, text in rows]


@dataclass
class Bait:
    """What the programs are after; `harm` says what they got."""

    folder: Path
    victim: subprocess.Popen[bytes]
    servers: list[socket.socket]
    mark: str = field(default_factory=lambda: f"left-{secrets.token_hex(6)}")

    def baited(self, source: str) -> str:
        """A program with our bait in it."""
        names = {
            "OUTSIDE": self.folder,
            "PORT": self.servers[0].getsockname()[1],
            "SOCKET": self.mark,
            "PID": self.victim.pid,
            "MARK": self.mark,
            "NUL": "\0",
        }
        return re.sub("@([A-Z]+)@", lambda found: str(names[found[1]]), source)

    def harm(self) -> list[str]:
        """What was changed, reached, killed or left running, a line each."""
        found = [] if self.victim.poll() is None else ["a process of ours was killed"]
        if [path.name for path in self.folder.iterdir()] != [INSIDE] or (self.folder / INSIDE).read_text() != SECRET:
            found.append("files outside were changed")
        for server in self.servers:
            with suppress(BlockingIOError):
                server.accept()
                found.append("a server of ours was reached")
        left = [each for each in psutil.process_iter(["cmdline"]) if self.mark in (each.info["cmdline"] or [])]
        return found + [f"{each.pid} was left running" for each in left]


@contextmanager
def bait() -> Iterator[Bait]:
    """Bait that is set up, and cleared away."""
    with tempfile.TemporaryDirectory() as made, socket.socket() as tcp, socket.socket(socket.AF_UNIX) as abstract:
        folder = Path(made) / "outside"
        folder.mkdir()
        for path in (Path(made), folder):
            path.chmod(0o777)
        (folder / INSIDE).write_text(SECRET)
        (folder / INSIDE).chmod(0o666)
        victim = subprocess.Popen(["sleep", "1000"], env={SECRET: "1"})
        found = Bait(folder, victim, [tcp, abstract])
        tcp.bind(("127.0.0.1", 0))
        abstract.bind(f"\0{found.mark}")
        for server in found.servers:
            server.listen()
            server.setblocking(False)
        try:
            yield found
        finally:
            victim.kill()
            victim.wait()


def tried(programs: list[Hostile], backend: str, found: Bait) -> dict[str, Outcome]:
    """What came of each program in a backend."""

    def once(program: Hostile) -> Outcome:
        return run(found.baited(program.source), program.limits, backend)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip([each.name for each in programs], pool.map(once, programs), strict=True))
