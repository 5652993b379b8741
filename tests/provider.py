"""A server that speaks as OpenAI's does, on a free port of this machine, for tests of a provider's own client."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from sottovoce.core.any_types import JSON

MINI = "hosted:openai:gpt-4o-mini"
KEY = "sk-no-key-of-anybody"
Answer = tuple[int, str, str]
"""Status, kind and text."""


@dataclass
class Provider:
    """What the server replies, and what was asked of it, on how many connections."""

    reply: str
    longest: int = 10**6
    """Characters of a reply before it is cut."""
    says: Answer | None = None
    """What it says instead, whatever it is asked."""
    asked: list[JSON] = field(default_factory=list)
    connections: int = 0
    first: threading.Event = field(default_factory=threading.Event)
    """Set when a request has come."""
    may_reply: threading.Event = field(default_factory=threading.Event)

    def answer(self, request: dict[str, Any]) -> Answer:
        self.asked.append(request)
        if self.says:
            return self.says
        finish = "length" if self.longest < len(self.reply) else "stop"
        if not request.get("stream"):
            message = {"role": "assistant", "content": self.reply[: self.longest]}
            return 200, "application/json", json.dumps(choice(message=message, finish_reason=finish))
        pieces = self.reply[:9], self.reply[9 : self.longest]
        chunks = [choice(delta={"role": "assistant", "content": piece}) for piece in pieces]
        return streamed(*chunks, choice(delta={}, finish_reason=finish))


def choice(**fields: object) -> dict[str, object]:
    kind = "chat.completion.chunk" if "delta" in fields else "chat.completion"
    return {"id": "1", "object": kind, "created": 0, "model": "gpt-4o-mini", "choices": [{"index": 0, **fields}]}


def streamed(*chunks: object) -> Answer:
    lines = (*(json.dumps(chunk) for chunk in chunks), "[DONE]")
    return 200, "text/event-stream", "".join(f"data: {line}\n\n" for line in lines)


@contextmanager
def served(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """Serve where the environment says that OpenAI's server is, on connections that stay open."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            provider.connections += 1

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            provider.first.set()
            provider.may_reply.wait(60)
            status, kind, text = provider.answer(request)
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(text.encode())))
            self.send_header("x-should-retry", "false")  # the client's own retries would take seconds
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    provider.may_reply.set()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield provider
        provider.may_reply.set()
        server.shutdown()
