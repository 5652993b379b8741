"""A hub id works where the hub answers, and from the local cache where it does not; an unknown one fails at once."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sottovoce.core.any_types import Untyped
from tests.support import tiny_model, tiny_tokenizer

ASK = """
import json, sys, time
from sottovoce.core.errors import ModelError
from sottovoce.models import load
for name in sys.argv[1:]:
    began = time.monotonic()
    try:
        said = load(name, device="cpu").layers
    except ModelError as error:
        said = str(error)
    print(json.dumps([said, time.monotonic() - began]))
"""
AT_ONCE = 5  # seconds; one unknown id took 72 s where there is no network


def ask(hub: str, home: Path, *names: str) -> list[tuple[int | str, float]]:
    """Number of layers or the complaint, and seconds, of each name in a new process (the address is read on import)."""
    variables = {**os.environ, "HF_ENDPOINT": hub, "HF_HOME": str(home), "HF_HUB_OFFLINE": "0"}
    command = [sys.executable, "-c", ASK, *names]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=600, check=True)
    assert done.stderr == ""
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_a_hub_id_is_loaded_from_the_hub_then_from_its_cache_and_an_unknown_one_fails_at_once(tmp_path: Path) -> None:
    tiny_model().save_pretrained(tmp_path / "hub" / "some" / "tiny")
    tiny_tokenizer().save_pretrained(tmp_path / "hub" / "some" / "tiny")

    with serving(tmp_path / "hub") as hub:
        online = ask(hub, tmp_path / "home", "some/tiny", "some/other")
    offline = ask(hub, tmp_path / "home", "some/tiny", "some/other")

    assert [said for said, _ in online] == [2, online[1][0]]
    assert str(online[1][0]).startswith(
        "model 'some/other' cannot be loaded: some/other is not a local folder and is not"
    )
    assert [said for said, _ in offline] == [2, offline[1][0]]
    assert "the hub cannot be reached ([Errno 111] Connection refused), and its local cache does not" in str(
        offline[1][0]
    )
    assert offline[1][1] < AT_ONCE


COMMIT = "0" * 40


class _Hub(BaseHTTPRequestHandler):
    def __init__(self, root: Path, *connection: Untyped) -> None:
        self.root = root
        super().__init__(*connection)

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].removeprefix("/api/models/").strip("/")
        owner, name, kind, *rest = [*path.split("/"), "", ""]
        folder = self.root / owner / name
        if not folder.is_dir():
            self._answer(404, b"", "RepoNotFound")
        elif kind == "resolve":
            file = folder / rest[1]
            self._answer(200, file.read_bytes()) if file.is_file() else self._answer(404, b"", "EntryNotFound")
        else:
            self._answer(200, json.dumps(self._listed(folder, kind, f"{owner}/{name}")).encode())

    do_HEAD = do_GET

    def _listed(self, folder: Path, kind: str, name: str) -> object:
        files = [
            {"type": "file", "path": file.name, "size": file.stat().st_size, "oid": ""} for file in folder.iterdir()
        ]
        return files if kind == "tree" else {"id": name, "sha": COMMIT, "siblings": []}

    def _answer(self, status: int, data: bytes, error: str = "") -> None:
        self.send_response(status)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("X-Error-Code", error)
        self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving(root: Path) -> Iterator[str]:
    """The address of a hub that has root/OWNER/NAME/FILE."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Hub, root))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
