"""What LangGraph's server serves: `python -m sottovoce.graphs > langgraph.json`, schemes of other packages too."""

from __future__ import annotations

import json
import sys
from importlib import import_module

from sottovoce.errors import SottovoceError, UsageError
from sottovoce.graphs.scheme import SCHEMES, Scheme, scheme

STUDIO = "https://smith.langchain.com"
"""The one page of another origin that may use the server."""
HERE = r"http://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?"
"""Pages of this machine's own, such as examples/page."""
SHOWN = ["x-pagination-total", "x-pagination-next", "content-location"]
CORS = {
    "allow_origins": [STUDIO],
    "allow_origin_regex": HERE,
    "allow_methods": ["*"],
    "allow_headers": ["*"],
    "expose_headers": SHOWN,
}
HTTP = {"app": "sottovoce.graphs.origins:app", "cors": CORS, "disable_webhooks": True}
"""Without webhooks, by which a client has the server post to any address."""


def served(found: Scheme) -> dict[str, str]:
    """Return the entry of a scheme.

    Raises:
        UsageError: its module has no `make_graph`, by which the server gets its graph.
    """
    module = SCHEMES.module(found.name)
    if not hasattr(import_module(module), "make_graph"):
        raise UsageError(f"module {module!r} has no make_graph; write make_graph = SCHEME.make_graph below its SCHEME")
    return {"path": f"{module}:make_graph", "description": found.summary}


def main() -> int:
    """Print the configuration of all schemes, or in one line why it cannot be made."""
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
