"""The configuration of a server: how its graphs are built, and the names that its clients may use.

    [settings]                          # for all served graphs that have such a setting
    max_tokens = 256

    [settings.codegen]                  # for one graph
    sandbox = "isolated"

    [model]                             # names for clients, each with its value
    small = "models/small"

    [prompts]
    ours = "prompts/ours"

It is the TOML file that `SOTTOVOCE_SERVER` names; relative paths are relative to the server's working folder. Without
it, clients may use bundled names only.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from sottovoce.core.any_types import JSON
from sottovoce.core.errors import UsageError, nearest
from sottovoce.core.trust import Allow, marked
from sottovoce.settings import Settings
from sottovoce.settings.plain import named

VARIABLE = "SOTTOVOCE_SERVER"
SETTINGS = "settings"
AnySettings = TypeVar("AnySettings", bound=Settings)


def of_server(
    scheme: str, kind: type[AnySettings], known: Callable[[], Mapping[str, type[Settings]]]
) -> tuple[AnySettings, Allow]:
    """Return the settings that a scheme's graph is built with on this server, and the names that clients may use.

    `known` returns the settings of all schemes.

    Raises:
        UsageError: the server's configuration cannot be read, or has a table or setting that no scheme has.
    """
    if not (chosen := os.environ.get(VARIABLE)):
        return kind(), {}
    try:
        read = _read(Path(chosen))
        kinds = known()
        given, allow = read.pop(SETTINGS, {}), read
        names = {name for each in kinds.values() for name in marked(each)}
        if unknown := next((name for name in allow if name not in names), None):
            raise UsageError(nearest("table:", unknown, [SETTINGS, *names]))
        own = {key.replace("-", "_"): value for key, value in given.items()}
        every = {name: value for name, value in own.items() if name not in kinds}
        fields = {name: info for each in kinds.values() for name, info in each.model_fields.items()}
        shared = {name: value for name, value in named(every, fields).items() if name in kind.model_fields}
        built = kind.model_validate({**shared, **named(own.get(scheme, {}), kind.model_fields)})
    except (UsageError, AttributeError) as error:  # the latter if a value is not a table
        raise UsageError(f"{error} (the server's configuration, {VARIABLE})") from error
    return built, {name: values for name, values in allow.items() if name in marked(kind)}


def _read(path: Path) -> JSON:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"it cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"it is not TOML: {error}") from error
