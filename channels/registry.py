"""The protocols by name; `PROTOCOLS.register` adds one, and so does an entry point of "sottovoce.protocols"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sottovoce.registry import Registry

if TYPE_CHECKING:  # it imports torch, and help wants the names alone
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

register_protocol = PROTOCOLS.register
"""Make a class derived from `Protocol` usable by name: in settings, on the command line, in Studio's form."""


def create(name: str, **options: Any) -> Protocol:  # Any: each protocol's own options
    """Return the protocol `name` with its options.

    Raises:
        UsageError: there is no such protocol, it has no such option, or the option no such value.
    """
    return PROTOCOLS[name](**options)
