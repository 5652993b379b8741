"""The offer of a LangGraph server: the settings that its graphs are built with, and the names that clients may use.

A server's configuration is the TOML file that `SERVER` names (docs/howto/trust.md shows one). Relative paths in it are
relative to the server's working folder; without it, clients may use bundled names only.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from sottovoce.core.any_types import AnyState
from sottovoce.core.errors import UsageError, nearest
from sottovoce.core.trust import Allow, Allowed, marked
from sottovoce.nodes.option_groups import named
from sottovoce.nodes.settings import Settings

SERVER = "SOTTOVOCE_SERVER"
"""The environment variable that names the server's configuration."""
OF_SERVER = f"the server's configuration ({SERVER})"
SERVERS = re.compile("^(_|langgraph_|checkpoint_)|_id$|-")
"""Configuration keys of LangGraph and its server (langgraph-api 0.16), including headers."""


def offered(path: Path, name: str, kinds: Mapping[str, type[Settings]]) -> tuple[Settings, Allow]:
    """Return the settings that a scheme's graph is built with on a server, and the names that its clients may use.

    `kinds` are the settings of all schemes, by name.

    Raises:
        UsageError: the server's configuration cannot be read, or has a table or setting that no scheme has.
    """
    kind = kinds[name]
    try:
        allow = tomllib.loads(path.read_text(encoding="utf-8"))
        given, names = allow.pop("settings", {}), {each for settings in kinds.values() for each in marked(settings)}
        if unknown := next((each for each in allow if each not in names), None):
            raise UsageError(nearest("table:", unknown, ["settings", *names]))
        own = {key.replace("-", "_"): value for key, value in given.items()}
        every = {key: value for key, value in own.items() if key not in kinds}
        fields = {key: info for each in kinds.values() for key, info in each.model_fields.items()}
        shared = {key: value for key, value in named(every, fields).items() if key in kind.model_fields}
        built = kind.model_validate({**shared, **named(own.get(name, {}), kind.model_fields)})
    except OSError as error:
        raise UsageError(f"{OF_SERVER} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{OF_SERVER} is not TOML: {error}") from error
    except (UsageError, AttributeError) as error:  # the latter if a value is not a table
        raise UsageError(f"{OF_SERVER}: {error}") from error
    return built, {each: values for each, values in allow.items() if each in marked(kind)}


def client_settings(configurable: Mapping[str, AnyState], built: Settings, allow: Allow) -> Settings:
    """Return the graph's own settings, updated with a client's. The server's own keys are ignored.

    Raises:
        UsageError: a setting is wrong or unknown, or names something that this server does not offer.
    """
    kind = type(built)
    own = {name: value for name, value in configurable.items() if name in kind.model_fields}
    for name in configurable.keys() - own.keys():
        if not SERVERS.search(name):
            raise UsageError(nearest("setting:", name, kind.model_fields))
    settings = kind.model_validate({**built.model_dump(exclude_unset=True), **own})
    Allowed.of(allow, kind).check(settings, built)
    return settings
