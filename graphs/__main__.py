"""Configuration of LangGraph's server, with other packages' schemes: `python -m sottovoce.graphs > langgraph.json`."""

from __future__ import annotations

import json
import sys
from importlib import import_module

from sottovoce.core.errors import SottovoceError, UsageError
from sottovoce.graphs.scheme import SCHEMES, Scheme, scheme

STUDIO = "https://smith.langchain.com"
"""The only page of another origin that may use the server."""
HERE = r"http://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?"
"""Pages served by this machine, such as examples/page."""
CORS = {
    "allow_origins": [STUDIO],
    "allow_origin_regex": HERE,
    "allow_methods": ["*"],
    "allow_headers": ["*"],
    "expose_headers": ["x-pagination-total", "x-pagination-next", "content-location"],
}
HTTP = {"app": "sottovoce.graphs.origins:app", "cors": CORS, "disable_webhooks": True}
"""Webhooks are off, since with them a client could make the server post to any address."""


def served(scheme: Scheme) -> dict[str, str]:
    """Return the entry of a scheme in langgraph.json.

    Raises:
        UsageError: its module has no `make_graph`, which the server calls to build the graph.
    """
    module = SCHEMES.module(scheme.name)
    if not hasattr(import_module(module), "make_graph"):
        raise UsageError(f"module {module!r} has no make_graph; write make_graph = SCHEME.make_graph below its SCHEME")
    return {"path": f"{module}:make_graph", "description": scheme.summary}


def main() -> int:
    """Print the configuration of all schemes, or a one-line error on stderr; return the exit code."""
    try:
        graphs = {name: served(scheme(name)) for name in SCHEMES}
    except SottovoceError as error:
        print(f"sottovoce: {error}", file=sys.stderr)
        return error.exit_code
    config = {"$schema": "https://langgra.ph/schema.json", "dependencies": ["."], "graphs": graphs, "http": HTTP}
    print(json.dumps(config, indent=2, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
