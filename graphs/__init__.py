"""Which act follows which: one file a scheme. `SCHEMES` is the list that everything else agrees with."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from sottovoce.errors import UsageError, choose

SCHEMES: dict[str, str] = {
    "debate": "sottovoce.graphs.debate:make_graph",
    "mad": "sottovoce.graphs.mad:make_graph",
    "reconcile": "sottovoce.graphs.reconcile:make_graph",
    "cmd": "sottovoce.graphs.cmd:make_graph",
    "single": "sottovoce.graphs.single:make_graph",
    "self_consistency": "sottovoce.graphs.self_consistency:make_graph",
}
"""By name: where the scheme's graph is made from a runnable config. Dotted paths, so that listing loads nothing."""


@dataclass(frozen=True)
class Scheme:
    """A scheme's parts, loaded."""

    name: str
    create: Any
    """`create_<scheme>(settings, models=..., store=...) -> StateGraph`; Any: each takes its own settings."""
    settings: Any
    """The pydantic class of its settings."""


def scheme(name: str) -> Scheme:
    """Load a scheme by name; dashes and underscores are the same.

    Raises:
        UsageError: there is no such scheme.
    """
    key = name.replace("-", "_")
    if key not in SCHEMES:
        raise UsageError(choose("scheme", name, list(SCHEMES)))
    module = import_module(SCHEMES[key].split(":")[0])
    return Scheme(key, getattr(module, f"create_{key}"), module.SETTINGS)
