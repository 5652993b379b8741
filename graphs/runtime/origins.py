"""Middleware that refuses requests from pages of other origins (`http.app` of langgraph.json).

CORS alone is not enough: it stops a page from reading an answer, but langgraph-api (0.16) executes a request that a
page posts as text/plain, which browsers send without a preflight. `http.cors` in langgraph.json lists the allowed
origins.
"""

from __future__ import annotations

import json
import os
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any
from urllib.parse import SplitResult, urlsplit

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import JSONResponse

VARIABLE = "LANGGRAPH_HTTP"
"""The environment variable that has `http` of langgraph.json (langgraph-api 0.16)."""
PRIVATE_NETWORK = b"access-control-request-private-network"
"""The header by which a browser asks whether a public page, such as Studio, may use a server of this machine."""


def origins() -> list[str]:
    """Return the origins whose pages may use the server."""
    cors: dict[str, list[str]] = json.loads(os.environ.get(VARIABLE) or "{}").get("cors") or {}
    return cors.get("allow_origins", [])


class KnownOrigins:
    """ASGI middleware that refuses requests from unknown pages, and requests to host names that are not the server's.

    A foreign page can make its own host name resolve to this machine (DNS rebinding), but not an address or a name
    without a dot.
    """

    def __init__(self, app: Any) -> None:  # Any: an ASGI application
        self._app, self._origins = app, origins()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # Any: as ASGI has them
        """Pass on requests from programs, from this machine's pages, and from pages of known origins; refuse others."""
        if scope["type"] in ("http", "websocket"):
            # LangGraph's own middleware grants this; Starlette's (1.10) refuses requests with this header.
            scope = {**scope, "headers": [each for each in scope["headers"] if each[0] != PRIVATE_NETWORK]}
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            origin, host = headers.get("origin"), headers.get("host", "")
            if not self._is_host(host) or (origin is not None and not self._is_origin(origin, host)):
                told = (
                    f"requests from {origin or host} are refused; http.cors in langgraph.json lists the allowed origins"
                )
                await JSONResponse({"detail": told}, 403)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _is_origin(self, origin: str, host: str) -> bool:
        found = _split(origin)
        here = _address(found.hostname or "")
        local = found.hostname == "localhost" or (here is not None and here.is_loopback)
        return local or (found.netloc == host != "") or not {origin, "*"}.isdisjoint(self._origins)

    def _is_host(self, host: str) -> bool:
        name = _split(f"//{host}").hostname or ""
        known = {_split(origin).hostname for origin in self._origins}
        return "." not in name or _address(name) is not None or name in known


def _split(address: str) -> SplitResult:
    """Return the parts of an address; all are empty if it is invalid."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")


def _address(name: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(name)
    except ValueError:
        return None


app = Starlette(middleware=[Middleware(KnownOrigins)])
