"""What `sottovoce` offers under its own name: it is there, documented, and cheap to import."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sottovoce
from sottovoce.graphs import schemes

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
