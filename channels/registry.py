"""The protocols by name; `PROTOCOLS.register` adds one, and so does an entry point of "sottovoce.protocols"."""

from __future__ import annotations

from typing import Any

from sottovoce.registry import Registry

PROTOCOLS: Registry[Any] = Registry(  # Any: classes derived from `Protocol`, which imports torch
    "protocol",
    "sottovoce.protocols",
    {
        "nl": "sottovoce.channels.nl:NL",
        "cipher": "sottovoce.channels.cipher:Cipher",
        "sde": "sottovoce.channels.sde:SDE",
        "hidden": "sottovoce.channels.sde:Hidden",
    },
)
