"""The protocols by name."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from sottovoce.channels.cipher import Cipher
from sottovoce.channels.nl import NL
from sottovoce.channels.protocol import Protocol
from sottovoce.channels.sde import SDE, Hidden
from sottovoce.errors import UsageError, choose

PROTOCOLS: dict[str, type[Protocol]] = {each.name: each for each in (NL, Cipher, SDE, Hidden)}


def create(name: str, **options: Any) -> Protocol:  # Any: each protocol's own options
    """Return the protocol `name` with its options.

    Raises:
        UsageError: there is no such protocol, it has no such option, or the option no such value.
    """
    if name not in PROTOCOLS:
        raise UsageError(choose("protocol", name, list(PROTOCOLS)))
    known = [field.name for field in fields(PROTOCOLS[name])]
    for option in options:
        if option not in known:
            raise UsageError(f"protocol {name!r} has no option {option!r}; it has: {', '.join(sorted(known))}")
    hints = get_type_hints(PROTOCOLS[name])
    for option, value in options.items():
        choices = _choices(hints[option])
        if choices and value not in choices:
            raise UsageError(choose(option, value, [str(choice) for choice in choices if choice is not None]))
    return PROTOCOLS[name](**options)


def _choices(hint: Any) -> tuple[Any, ...]:  # Any: a type, and the values of a Literal
    """The values of a Literal, and None where it is optional; () for any other type."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    found = [value for part in get_args(hint) for value in _choices(part)]
    return (*found, None) if found else ()
