"""Middleware that refuses requests from pages of other origins, or under other names (`http.app` of langgraph.json).

`http.cors` alone is not enough: it stops a page from reading an answer, but langgraph-api (0.16) executes a request
that a page posts as text/plain, which browsers send without a preflight. A page on a name that resolves to this machine
(DNS rebinding) sends no origin when it reads; only the Host header shows it.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import JSONResponse

from sottovoce.core.any_types import Untyped

VARIABLE = "LANGGRAPH_HTTP"
"""The environment variable that has `http` of langgraph.json (langgraph-api 0.16)."""
PRIVATE_NETWORK = b"access-control-request-private-network"
"""The header by which a browser asks whether a public page, such as Studio, may use a server of this machine."""


NUMBERS = re.compile(r"([\d.]+|\[[\da-fA-F:.]+\])(:\d+)?")
"""A host that is an address, which no DNS server can redirect."""


class KnownOrigins:
    """ASGI middleware that refuses requests from pages, or to hosts, that are not among the origins of `http.cors`."""

    def __init__(self, app: Untyped) -> None:
        cors: dict[str, Any] = json.loads(os.environ.get(VARIABLE) or "{}").get("cors") or {}
        self._app, self._origins = app, {*cors.get("allow_origins", [])}
        self._pattern = re.compile(cors.get("allow_origin_regex") or r"\b\B")

    async def __call__(self, scope: Untyped, receive: Untyped, send: Untyped) -> None:
        """Pass on requests from programs and from pages of known origins; refuse others."""
        if scope["type"] in ("http", "websocket"):
            # LangGraph's own middleware grants this; Starlette's (1.10) refuses requests with this header.
            scope = {**scope, "headers": [each for each in scope["headers"] if each[0] != PRIVATE_NETWORK]}
            sent = {name: value.decode("latin-1") for name, value in scope["headers"] if name in (b"origin", b"host")}
            origin, host = sent.get(b"origin"), sent.get(b"host", "")
            known = (
                not host or NUMBERS.fullmatch(host) or self._knows(f"http://{host}") or self._knows(f"https://{host}")
            )
            if not known or (origin is not None and not self._knows(origin)):
                told = f"requests from {origin if known else host} are refused; http.cors in langgraph.json lists the "
                await JSONResponse({"detail": f"{told}allowed origins"}, 403)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _knows(self, origin: str) -> bool:
        return bool({"*", origin} & self._origins or self._pattern.fullmatch(origin))


app = Starlette(middleware=[Middleware(KnownOrigins)])
