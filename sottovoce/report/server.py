"""The server of a live page: it answers only requests from this machine that have its address.

The token of the address is part of every request. A page of another origin has no token and may not post. It cannot
reach the server under another name either (DNS rebinding), since other hosts are refused. Requests name runs and
discussions by number, and models by the names that the page offers; no path is ever taken from them.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Callable
from typing import Any

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request as HTTPRequest
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sottovoce.core.errors import SottovoceError, UsageError
from sottovoce.core.text import one_line
from sottovoce.core.validation import first_wrong
from sottovoce.report.live import Live, Request
from sottovoce.report.page import page, policy

HOST = "127.0.0.1"
HOSTS = [HOST, "localhost"]
PAUSE = 0.5
"""Seconds between two looks at the logs."""
HEADERS = {
    "Content-Security-Policy": f"{policy(live=True)}; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",  # the address has the token
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def server(live: Live, token: str, ends: Callable[[], bool]) -> Starlette:
    """Return the application; `ends` says whether the server is stopping, since listening pages would delay that."""
    answers = _Answers(live, ends)
    routes = [
        Route("/", answers.home),
        Route("/run", answers.run),
        Route("/discussion", answers.discussion),
        Route("/search", answers.search),
        Route("/events", answers.events),
        Route("/start", answers.start, methods=["POST"]),
    ]
    guards = [Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS), Middleware(_Guard, token=token)]
    return Starlette(routes=routes, middleware=guards, exception_handlers={SottovoceError: _refused})


class _Guard:
    """Refuses requests without the token or from pages of other origins, and adds headers to all answers."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = HTTPRequest(scope)
        why = self._why_not(request)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        app = PlainTextResponse(f"{why}\n", 403) if why else self._app
        await app(scope, receive, guarded)

    def _why_not(self, request: HTTPRequest) -> str:
        if not secrets.compare_digest(request.query_params.get("token", "").encode(), self._token):
            return "the address lacks its token; open the one that `view` has printed"
        origin, own = request.headers.get("origin"), f"http://{request.headers.get('host')}"
        if (origin or request.method == "POST") and origin != own:
            return "a page of another origin asks; only this server's own page may"
        return ""


class _Answers:
    """The answers at each address. Starlette runs functions that wait for the disk in threads."""

    def __init__(self, live: Live, ends: Callable[[], bool]) -> None:
        self._live, self._ends = live, ends

    def home(self, request: HTTPRequest) -> Response:
        now = self._live.changes(-1)
        about = {"title": "Sottovoce", "unfinished": "", "discussions": [], "words": [], "version": now["version"]}
        shown = {"listed": [about for _, about in now["runs"]], "index": [each for _, each in now["rows"]]}
        return HTMLResponse(page(live=True, **about, **shown, **self._live.offer()))

    def run(self, request: HTTPRequest) -> Response:
        self._live.open(_number(request, "n", len(self._live.runs)))
        return JSONResponse(self._live.changes(_number(request, "since")))

    def discussion(self, request: HTTPRequest) -> Response:
        number = _number(request, "d", len(self._live.rows))
        return JSONResponse(self._live.discussion(number, _number(request, "words")))

    def search(self, request: HTTPRequest) -> Response:
        return JSONResponse(self._live.search(request.query_params.get("words", "")))

    async def events(self, request: HTTPRequest) -> Response:
        since = _number(request, "since")
        return StreamingResponse(self._changes(since), media_type="text/event-stream")

    async def _changes(self, since: int) -> AsyncIterator[str]:
        while not self._ends():
            await run_in_threadpool(self._live.follow)
            now = await run_in_threadpool(self._live.changes, since)
            if now["version"] > since:
                since = now["version"]
                yield f"data: {json.dumps(now)}\n\n"
            else:
                yield ": \n\n"  # a reader who is gone is noticed
            await asyncio.sleep(PAUSE)

    async def start(self, request: HTTPRequest) -> Response:
        try:
            asked = Request.model_validate_json(await request.body())
        except ValidationError as error:
            raise UsageError(first_wrong(error, "the request")) from error
        return JSONResponse({"run": await run_in_threadpool(self._live.start, asked)})


def _number(request: HTTPRequest, name: str, end: int | None = None) -> int:
    text = request.query_params.get(name, "")
    if not (text.isascii() and text.isdecimal() and len(text) < 10) or (end is not None and int(text) >= end):
        raise UsageError(f"{name} is {one_line(text)!r}; expected a number that this page shows")
    return int(text)


def _refused(request: HTTPRequest, error: Any) -> Response:  # Any: as Starlette types handlers
    return JSONResponse({"error": one_line(str(error))}, 400)
