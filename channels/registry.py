"""The protocols by name."""

from __future__ import annotations

from typing import Any

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
    return PROTOCOLS[name](**options)
