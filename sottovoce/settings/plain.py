"""Settings from YAML, with the names of the command line; a single value may replace a list of one.

Nothing here imports torch or langgraph.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from sottovoce.core.any_types import JSON, JSONValue
from sottovoce.core.errors import UsageError, nearest
from sottovoce.core.files import text_of

SWITCH = {True: "on", False: "off"}
"""YAML 1.1 reads these words as booleans."""
MERGE = "tag:yaml.org,2002:merge"
"""The tag of the key <<, which may be repeated."""


class UnknownName(UsageError):
    """An unknown setting; callers add where it was found."""


def read_yaml(path: Path, subject: str, example: str) -> dict[JSONValue, JSONValue]:
    """Return the mapping in a YAML file.

    Raises:
        UsageError: the file cannot be read, is not YAML, has a key twice or is not a mapping.
    """
    import yaml  # late: `--help` does not need it

    try:
        read = yaml.load(text_of(path), _loader())  # a safe one
    except OSError as error:
        raise UsageError(f"{subject} {str(path)!r} cannot be read: {error.strerror}") from error
    except RecursionError as error:
        raise UsageError(f"{subject} {str(path)!r} is nested too deeply; expected lines like {example!r}") from error
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        raise UsageError(f"{subject} {str(path)!r} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(read, dict):
        raise UsageError(f"{subject} {str(path)!r} contains {type(read).__name__}; expected lines like {example!r}")
    return read


def named(values: Mapping[JSONValue, JSONValue], fields: Mapping[str, FieldInfo]) -> JSON:
    """Return values by field, as the command line would pass them; null is the default. Raises UnknownName."""
    found = {str(name).replace("-", "_"): value for name, value in values.items()}
    for name in found:
        if name not in fields:
            raise UnknownName(nearest("setting", name, fields))
    return {name: _fitting(value, fields[name]) for name, value in found.items()}


def is_repeated(info: FieldInfo) -> bool:
    """Return True if an option can be repeated: lists, and NAME=VALUE."""
    return get_origin(info.annotation) in (list, tuple, dict)


def _fitting(value: JSONValue, info: FieldInfo) -> JSONValue:
    if value is None:  # null
        return info.get_default(call_default_factory=True)
    if is_repeated(info):
        return value if isinstance(value, (list, dict)) else [value]
    words = get_args(info.annotation) if get_origin(info.annotation) is Literal else ()
    return SWITCH[value] if isinstance(value, bool) and SWITCH[value] in words else value


@cache
def _loader() -> JSONValue:
    """Return yaml's safe loader, changed to refuse a repeated key, of which yaml would use the last."""
    import yaml

    class Once(yaml.SafeLoader):
        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            seen = set[str]()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.tag != MERGE:
                    if key.value in seen:
                        said = f"the key {key.value!r} occurs twice"
                        raise yaml.constructor.ConstructorError(None, None, said, key.start_mark)
                    seen.add(key.value)
            found: dict[Any, Any] = super().construct_mapping(node, deep)
            return found

    return Once
