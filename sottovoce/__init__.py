"""Sottovoce: language-model agents that discuss in words and in what lies under the words.

The public API is importable from here: `from sottovoce import Debate, create_debate`. `__init__.pyi`, which type
checkers read too, lists its names. Each name is loaded from its module on first access, so that the import itself
loads neither torch nor langgraph (lazy loading as in Scientific Python's SPEC 1).
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.1.0"
if not Path(__file__).with_name("graphs").is_dir():  # a checkout without its links, as on Windows or from a zip file
    __path__.append(str(Path(__file__).parents[1]))  # graphs/, nodes/, models/ and the others stand beside this folder
_LIST = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
_HOMES = {each.name: line.module for line in _LIST.body if isinstance(line, ast.ImportFrom) for each in line.names}
__all__ = [*_HOMES, "__version__"]  # names, as in the list


def __getattr__(name: str) -> Any:  # Any: an attribute of any module
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(str(_HOMES[name])), name)
    return found


def __dir__() -> list[str]:
    return __all__
