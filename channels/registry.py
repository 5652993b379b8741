"""The protocols by name; `PROTOCOLS.register` adds one, and so does an entry point of "sottovoce.protocols"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sottovoce.errors import UsageError
from sottovoce.registry import Registry

if TYPE_CHECKING:  # a protocol imports torch, and the names alone are wanted for help
    from sottovoce.channels.protocol import Protocol

PROTOCOLS: Registry[type[Protocol]] = Registry(
    "protocol",
    "sottovoce.protocols",
    {
        "nl": "sottovoce.channels.nl:NL",
        "cipher": "sottovoce.channels.cipher:Cipher",
        "sde": "sottovoce.channels.sde:SDE",
        "hidden": "sottovoce.channels.sde:Hidden",
    },
)
