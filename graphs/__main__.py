"""What LangGraph's server serves: `python -m sottovoce.graphs > langgraph.json`."""

from __future__ import annotations

import json

from sottovoce.graphs.scheme import schemes

served = {
    each.name: {"path": f"sottovoce.graphs.{each.name}:make_graph", "description": each.summary} for each in schemes()
}
STUDIO = "https://smith.langchain.com"
"""The one page of another origin that may use the server."""
HERE = r"http://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?"
"""Pages of this machine's own, such as examples/page."""
SHOWN = ["x-pagination-total", "x-pagination-next", "content-location"]
cors = {"allow_origins": [STUDIO], "allow_origin_regex": HERE, "allow_methods": ["*"], "allow_headers": ["*"]}
cors |= {"expose_headers": SHOWN}
http = {"app": "sottovoce.graphs.origins:app", "cors": cors}
config = {"$schema": "https://langgra.ph/schema.json", "dependencies": ["."], "graphs": served, "http": http}
print(json.dumps(config, indent=2, ensure_ascii=False))
