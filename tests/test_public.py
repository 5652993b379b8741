"""What `sottovoce` offers under its own name: it is there, documented, cheap to import, and changed on purpose."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from syrupy.assertion import SnapshotAssertion

import sottovoce
from sottovoce.graphs import schemes
from sottovoce.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
NAMES: list[str] = vars(sottovoce)["__all__"]
OFFERED = [name for name in NAMES if name != "__version__"]
LIGHT = """
import sys
from sottovoce import Debate, UsageError, create_debate
print({"torch", "langgraph"} & {*sys.modules})
"""


def own_docstring(found: Any) -> str:  # Any: of any kind
    """Its own, not the one that pydantic or a registry's class gives to what has none."""
    return vars(found).get("__doc__") or "" if isinstance(found, type) else inspect.getdoc(found) or ""


def test_every_name_is_there_with_a_docstring() -> None:
    assert [name for name in OFFERED if not own_docstring(getattr(sottovoce, name)).strip()] == []


def test_every_scheme_is_offered_with_its_settings() -> None:
    wanted = {name for each in schemes() for name in (each.create.__name__, each.settings.__name__)}

    assert wanted - set(OFFERED) == set()


def test_the_reference_has_every_name_once() -> None:
    reference = ROOT / "docs" / "reference"
    pages = [reference / "api.md", *sorted((reference / "api").glob("*.md"))]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)

    assert sorted(re.findall(r"^::: sottovoce\.(\w+)$", text, re.MULTILINE)) == sorted(OFFERED)


def test_the_import_loads_neither_torch_nor_langgraph() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, check=True, text=True, cwd=ROOT)

    assert done.stdout == "set()\n"


def test_what_is_not_offered_is_missed_as_in_any_module() -> None:
    with pytest.raises(AttributeError, match="module 'sottovoce' has no attribute 'create_quarrel'"):
        _ = sottovoce.create_quarrel  # type: ignore[attr-defined]
    assert set(dir(sottovoce)) == set(NAMES)


def test_signatures_change_on_purpose_alone(snapshot: SnapshotAssertion) -> None:
    assert {name: signature(getattr(sottovoce, name)) for name in OFFERED} == snapshot


def signature(found: Any) -> list[str]:  # Any: of any kind
    """How it is called and what it has: of settings the fields that not all schemes have, of errors what they are."""
    if isinstance(found, type) and issubclass(found, Exception):
        return [each.__name__ for each in found.__mro__ if each.__module__ == found.__module__]
    if isinstance(found, type) and issubclass(found, BaseModel):
        return [name for name in found.model_fields if name in own_fields(found)]
    if isinstance(found, type) and "__required_keys__" in vars(found):
        return sorted(found.__annotations__)
    has = [] if inspect.isfunction(found) else sorted(name for name in dir(found) if not name.startswith("_"))
    return [*parameters(found), *has]


def own_fields(found: type[BaseModel]) -> set[str]:
    """Those that we declare, beyond what all settings have."""
    ours = [each for each in found.__mro__ if each.__module__.startswith("sottovoce.")]
    return {name for each in ours if not issubclass(Settings, each) for name in vars(each).get("__annotations__", {})}


def parameters(found: Any) -> list[str]:  # Any: of any kind
    """Without annotations, which Python's versions write differently."""
    given = inspect.signature(found).parameters.values() if callable(found) else ()
    written = (str(each.replace(annotation=inspect.Parameter.empty)) for each in given)
    return [re.sub(" at 0x[0-9a-f]+", "", each) for each in written]
