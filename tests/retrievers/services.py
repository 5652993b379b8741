"""A service on the loopback interface that answers what a test tells it to, and remembers what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from sottovoce.core.any_types import JSONValue
from sottovoce.retrievers.service import Patience

AT_ONCE = Patience(timeout=600, wait=0)
"""Retries as usual, without waiting between them."""


@dataclass(frozen=True)
class Reply:
    """One answer: an object is sent as JSON."""

    body: JSONValue = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    after: float = 0.0
    """Seconds before it is sent."""
    hang_up: bool = False
    """Close the connection instead."""


@dataclass
class Service:
    """What is answered, in this order; the last one again and again."""

    address: str = ""
    replies: list[Reply] = field(default_factory=list)
    asked: list[dict[str, str]] = field(default_factory=list)
    """The parameters of each request, and its User-Agent."""
    over: threading.Event = field(default_factory=threading.Event)

    def next(self, path: str, agent: str) -> Reply:
        told = {name: values[0] for name, values in parse_qs(urlsplit(path).query).items()}
        self.asked.append({**told, "User-Agent": agent})
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]


@contextmanager
def serving(*replies: Reply) -> Iterator[Service]:
    service = Service(replies=list(replies))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            reply = service.next(self.path, self.headers["user-agent"])
            service.over.wait(reply.after)
            if reply.hang_up:
                return
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            body = (reply.body if isinstance(reply.body, str) else json.dumps(reply.body)).encode()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:  # whoever asked has gone
                pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        service.address = f"http://127.0.0.1:{server.server_port}"
        try:
            yield service
        finally:
            service.over.set()
            server.shutdown()


HTML = Reply("<html>\n<body>Bad gateway</body></html>", headers={"content-type": "text/html; charset=utf-8"})
