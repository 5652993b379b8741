"""Settings from YAML: names as on the command line, a single value where a list of one is meant.

Nothing here imports torch or langgraph.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from sottovoce.errors import UsageError, nearest
from sottovoce.regular import text_of

SWITCH = {True: "on", False: "off"}
"""YAML (1.1) reads these words as truth values."""
MERGE = "tag:yaml.org,2002:merge"
"""Of the key <<, which may stand there again."""


class UnknownName(UsageError):
    """A setting that there is not; who knows where it stands says so."""


def read_yaml(path: Path, what: str, example: str) -> dict[Any, Any]:  # Any: YAML as it comes
    """The mapping that a YAML file holds.

    Raises:
        UsageError: it cannot be read, is no YAML, holds a key twice or something else than a mapping.
    """
    import yaml  # late: `--help` needs none

    try:
        read = yaml.load(text_of(path), _loader())  # a safe one
    except OSError as error:
        raise UsageError(f"{what} {str(path)!r} cannot be read: {error.strerror}") from error
    except RecursionError as error:
        raise UsageError(f"{what} {str(path)!r} is nested too deeply; expected lines like {example!r}") from error
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        raise UsageError(f"{what} {str(path)!r} is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(read, dict):
        raise UsageError(f"{what} {str(path)!r} holds {type(read).__name__}; expected lines like {example!r}")
    return read


def named(given: Mapping[Any, Any], fields: Mapping[str, FieldInfo]) -> dict[str, Any]:  # Any: YAML as it comes
    """Values by the names of a model's fields, each as the command line would give it; null is the default.

    Raises:
        UnknownName: a name that no field has, with the nearest one.
    """
    found = {str(name).replace("-", "_"): value for name, value in given.items()}
    for name in found:
        if name not in fields:
            raise UnknownName(nearest("setting", name, fields))
    return {name: _fitting(value, fields[name]) for name, value in found.items()}


def is_repeated(info: FieldInfo) -> bool:
    """Lists, and names with values."""
    return get_origin(info.annotation) in (list, tuple, dict)


def _fitting(value: Any, info: FieldInfo) -> Any:  # Any: YAML as it comes
    if value is None:  # as if it had not been given
        return info.get_default(call_default_factory=True)
    if is_repeated(info):
        return value if isinstance(value, (list, dict)) else [value]
    words = get_args(info.annotation) if get_origin(info.annotation) is Literal else ()
    return SWITCH[value] if isinstance(value, bool) and SWITCH[value] in words else value


@cache
def _loader() -> Any:  # Any: yaml's loaders are not typed
    """The safe loader of yaml, but that it refuses a key that stands there twice: yaml would keep the last one."""
    import yaml

    class Once(yaml.SafeLoader):
        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            seen = set[str]()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.tag != MERGE:
                    if key.value in seen:
                        said = f"the key {key.value!r} stands there twice"
                        raise yaml.constructor.ConstructorError(None, None, said, key.start_mark)
                    seen.add(key.value)
            found: dict[Any, Any] = super().construct_mapping(node, deep)
            return found

    return Once
