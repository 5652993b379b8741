"""A model hub on this machine, of folders: what huggingface_hub asks of one, and no more."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

COMMIT = "0" * 40


class _Hub(BaseHTTPRequestHandler):
    def __init__(self, root: Path, *connection: Any) -> None:  # Any: as socketserver gives it
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
