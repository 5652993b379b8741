"""Who may ask a server: programs, pages of this machine, and pages of the origins that langgraph.json names."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
from starlette.middleware.cors import CORSMiddleware

from sottovoce.graphs.origins import KnownOrigins

STUDIO = "https://smith.langchain.com"
HTTP = json.loads((Path(__file__).parents[2] / "langgraph.json").read_text())["http"]


async def passes(scope: object, receive: object, send: object) -> None:
    """Answer 200 whatever comes."""
    await send({"type": "http.response.start", "status": 200, "headers": []})  # type: ignore[operator]
    await send({"type": "http.response.body", "body": b""})  # type: ignore[operator]


@pytest.mark.parametrize(
    ("origin", "host", "status"),
    [
        (None, "127.0.0.1:2024", 200),
        (STUDIO, "127.0.0.1:2024", 200),
        ("http://localhost:3000", "localhost:2024", 200),
        ("https://evil.example", "127.0.0.1:2024", 403),
        ("http://evil.example:2024", "evil.example:2024", 403),
        ("null", "127.0.0.1:2024", 403),
        (None, "evil.example:2024", 403),  # DNS rebinding: a page reads what its own name leads to
        (STUDIO, "evil.example:2024", 403),
        (None, "192.168.0.7:2024", 200),
        (None, "[::1]:2024", 200),
    ],
)
async def test_a_page_from_elsewhere_is_refused(
    origin: str | None, host: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGGRAPH_HTTP", json.dumps(HTTP))
    headers = {"host": host, "content-type": "text/plain", **({"origin": origin} if origin else {})}
    transport = httpx.ASGITransport(app=KnownOrigins(passes))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        assert (await client.post("/runs/wait", headers=headers, content="{}")).status_code == status


async def test_studio_may_ask_from_a_public_page_and_no_other_page_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starlette answers 400 to a preflight that asks for a private network; LangGraph gives that leave itself."""
    monkeypatch.setenv("LANGGRAPH_HTTP", json.dumps(HTTP))
    app = KnownOrigins(CORSMiddleware(passes, **HTTP["cors"]))
    asked = {"access-control-request-method": "POST", "access-control-request-private-network": "true"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1") as client:
        answers = [
            await client.options("/runs/wait", headers={**asked, "origin": origin})
            for origin in (STUDIO, "https://evil.example")
        ]
    assert [each.status_code for each in answers] == [200, 403]


def test_langgraph_json_names_studio_s_origin_alone_and_posts_to_no_address_of_a_client_s() -> None:
    assert HTTP["disable_webhooks"] is True
    assert HTTP["cors"]["allow_origins"] == [STUDIO] and HTTP["app"] == "sottovoce.graphs.origins:app"
