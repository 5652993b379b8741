"""What LangGraph's server serves: `python -m sottovoce.graphs > langgraph.json`."""

from __future__ import annotations

import json

from sottovoce.graphs.scheme import schemes

served = {
    each.name: {"path": f"sottovoce.graphs.{each.name}:make_graph", "description": each.summary} for each in schemes()
}
config = {"$schema": "https://langgra.ph/schema.json", "dependencies": ["."], "graphs": served}
print(json.dumps(config, indent=2, ensure_ascii=False))
