"""Aliases of Any that say why a value has no type of its own."""

from __future__ import annotations

from typing import Any

JSONValue = Any
"""A value of JSON, YAML or TOML, or a field of settings or questions; pydantic or the reader checks it."""
JSON = dict[str, JSONValue]
"""An object of JSON, YAML or TOML."""
AnyState = Any
"""A state, an update, an input, settings or a graph of whichever scheme."""
Untyped = Any
"""A value of a library that does not type it, or types it otherwise."""
Unimported = Any
"""An object of a class that is not imported here, since that would take seconds or be circular."""
Keywords = Any
"""Further arguments, passed on as they come."""
