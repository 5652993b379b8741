"""A local server that replies as those of OpenAI's format do."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from time import sleep
from typing import Any

ABOUT = {"id": "1", "created": 1, "model": "mini"}
JSON, EVENTS = "application/json", "text/event-stream"


class Server:
    """A local server that sends the same reply whatever it is asked, and records what it was asked."""

    def __init__(self) -> None:
        self.address = ""
        self.asked: list[dict[str, Any]] = []
        self.status, self.headers, self.body = 200, {"Content-Type": JSON}, b""
        self.again, self.pause = b"", 0.0
        """What is sent behind the body again and again, and seconds between."""

    def says(self, body: object, kind: str = JSON, status: int = 200, encoding: str = "identity") -> None:
        self.status, self.headers = status, {"Content-Type": kind, "Content-Encoding": encoding}
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()

    def replies(
        self, message: Mapping[str, object] | str = "Answer: 4", usage: object = None, **choice: object
    ) -> None:
        """Send a whole body."""
        message = {"role": "assistant", **({"content": message} if isinstance(message, str) else message)}
        choices = [{"index": 0, "message": message, **choice}]
        self.says({**ABOUT, "object": "chat.completion", "choices": choices, "usage": usage})

    def streams(self, *deltas: Mapping[str, object], done: bool = True, usage: object = None, **end: object) -> None:
        """Send pieces, and their end if it has a reason."""
        choices = [{"index": 0, "delta": {"role": "assistant", **delta}} for delta in deltas]
        chunks: list[Any] = [{"choices": [choice]} for choice in choices]
        chunks += [{"choices": [{"index": 0, "delta": {}, **end}]}] if end else []
        chunks += [{"choices": [], "usage": usage}] if usage else []
        lines = [json.dumps({**ABOUT, "object": "chat.completion.chunk", **chunk}) for chunk in chunks]
        body = "".join(f"data: {line}\n\n" for line in [*lines, *["[DONE]"] * done])
        self.says(body.encode(), EVENTS)


@contextmanager
def served() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            state.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(state.status)
            for name, value in {**state.headers, "Connection": "close"}.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(OSError):  # the client has read enough
                self.wfile.write(state.body)
                while state.again:
                    self.wfile.write(state.again)
                    sleep(state.pause)

        def log_message(self, *about: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        state.address = f"http://127.0.0.1:{listening.server_port}/v1"
        Thread(target=listening.serve_forever, args=(0.01,), daemon=True).start()
        yield state
        state.again = b""
        listening.shutdown()
