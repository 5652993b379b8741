"""What tests need and no Python package brings, and what they must not see of the machine they run on."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import pytest

from sottovoce.core import registry

REQUIRE = "SOTTOVOCE_REQUIRE_ALL"
PROGRAMS = {"bwrap": "bubblewrap", "chromium": "chromium", "chromedriver": "chromium-driver"}
"""Debian's packages by program."""
MODULES = {"inspect_ai": "inspect-ai", "torchao": "torchao"}
"""Packages that no extra of the tests brings, by module."""


def absent() -> str:
    """Return in one line what this machine lacks, so that tests are skipped, and the commands that bring it."""
    apt = [package for program, package in PROGRAMS.items() if shutil.which(program) is None]
    apt += [] if [*Path("/usr/lib/postgresql").glob("*/bin/initdb")] else ["postgresql"]
    pip = [package for module, package in MODULES.items() if find_spec(module) is None]
    commands = [f"apt-get install --no-install-recommends {' '.join(apt)}"] if apt else []
    commands += [f".venv/bin/python -m pip install -c constraints.txt {' '.join(pip)}"] if pip else []
    return f"some tests are skipped here; what brings them: {'; '.join(commands)}" if commands else ""


def missing(program: str, package: str) -> NoReturn:
    """Skip the test, or fail it if $SOTTOVOCE_REQUIRE_ALL is set."""
    line = f"needs {program}: apt-get install --no-install-recommends {package}"
    if os.environ.get(REQUIRE):
        pytest.fail(line, pytrace=False)
    pytest.skip(line)


def ignore_installed() -> None:
    """Let this process find schemes, protocols and kinds of folders that tests add, and none of installed packages."""
    installed = {Path(folder).resolve() for folder in sys.path}

    def found(group: str) -> list[EntryPoint]:
        folders = [(entry, entry.dist and entry.dist.locate_file("")) for entry in entry_points(group=group)]
        return [entry for entry, folder in folders if Path(str(folder)).resolve() not in installed]

    vars(registry)["entry_points"] = found
