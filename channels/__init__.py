"""Channels between agents: messages, payloads and their store, the board, and the protocols by name.

`PROTOCOLS.register` adds a protocol, and so does an entry point of "sottovoce.protocols".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sottovoce.core.any_types import Keywords
from sottovoce.core.registry import Registry

if TYPE_CHECKING:  # it imports torch, and help needs only the names
    from sottovoce.channels.protocol import Protocol

PROTOCOLS: Registry[type[Protocol]] = Registry(
    "protocol",
    "sottovoce.protocols",
    {
        "nl": "sottovoce.channels.nl:NL",
        "cipher": "sottovoce.channels.cipher:Cipher",
        "sde": "sottovoce.channels.sde:SDE",
        "hidden": "sottovoce.channels.sde:Hidden",
        "kv": "sottovoce.channels.kv:KV",
        "thoughts": "sottovoce.channels.kv:Thoughts",
        "graft": "sottovoce.channels.sde:Graft",
    },
)

AVERAGING = ("cipher",)
"""Names of protocols whose replies are means over the embedding table, for those that must not load torch."""


def create(name: str, **options: Keywords) -> Protocol:
    """Return the protocol `name` with its options.

    Raises:
        UsageError: the protocol or an option is unknown, or a value is invalid.
    """
    return PROTOCOLS[name](**options)
