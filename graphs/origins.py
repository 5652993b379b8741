"""Middleware that refuses requests from pages of other origins (`http.app` of langgraph.json).

`http.cors` alone is not enough: it stops a page from reading an answer, but langgraph-api (0.16) executes a request
that a page posts as text/plain, which browsers send without a preflight.
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


class KnownOrigins:
    """ASGI middleware that refuses requests from pages whose origins `http.cors` does not list."""

    def __init__(self, app: Untyped) -> None:
        cors: dict[str, Any] = json.loads(os.environ.get(VARIABLE) or "{}").get("cors") or {}
        self._app, self._origins = app, {*cors.get("allow_origins", [])}
        self._pattern = re.compile(cors.get("allow_origin_regex") or r"\b\B")

    async def __call__(self, scope: Untyped, receive: Untyped, send: Untyped) -> None:
        """Pass on requests from programs and from pages of known origins; refuse others."""
        if scope["type"] in ("http", "websocket"):
            # LangGraph's own middleware grants this; Starlette's (1.10) refuses requests with this header.
            scope = {**scope, "headers": [each for each in scope["headers"] if each[0] != PRIVATE_NETWORK]}
            origin = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"origin"), None)
            known = origin is None or "*" in self._origins or origin in self._origins or self._pattern.fullmatch(origin)
            if not known:
                told = f"requests from {origin} are refused; http.cors in langgraph.json lists the allowed origins"
                await JSONResponse({"detail": told}, 403)(scope, receive, send)
                return
        await self._app(scope, receive, send)


app = Starlette(middleware=[Middleware(KnownOrigins)])
