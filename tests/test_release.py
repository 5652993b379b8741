"""A release: the source archive and the wheel are built without a warning, and hold what they should."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import sottovoce
from tests.test_repository import PACKAGES, SETUPTOOLS

ROOT = Path(__file__).resolve().parents[1]
NAME = f"sottovoce-{sottovoce.__version__}"
ELSEWHERE = {".ci/run", ".gitignore", ".pre-commit-config.yaml"}
"""Files that serve a checkout alone."""
MADE = {"PKG-INFO", "setup.cfg"}
BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"


def built(kind: str, source: Path, folder: Path) -> Path:
    """A file that setuptools builds of a folder, as `python -m build` asks it to."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}  # warned about
    command = [sys.executable, "-W", "error", "-c", BUILD, kind, str(folder)]
    done = subprocess.run(command, capture_output=True, check=False, text=True, cwd=source, env=env)
    assert done.returncode == 0, done.stderr
    assert [line for line in (done.stdout + done.stderr).splitlines() if "warning" in line.lower()] == []
    return folder / done.stdout.splitlines()[-1]


@pytest.mark.slow
def test_the_archives_of_a_release_are_built_without_a_warning_and_hold_what_they_should(tmp_path: Path) -> None:
    listing = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, capture_output=True, check=True, text=True).stdout.split("\0")
    tracked = {name for name in names if name and (ROOT / name).is_file()}  # links are to folders
    for name in tracked:
        (tmp_path / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / "source" / name)
    (tmp_path / "source" / "tests" / "left.pyc").touch()

    source = built("build_sdist", tmp_path / "source", tmp_path)
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    inside = {path.relative_to(tmp_path / NAME).as_posix() for path in (tmp_path / NAME).rglob("*") if path.is_file()}
    wheel = built("build_wheel", tmp_path / NAME, tmp_path)
    installed = {name for name in zipfile.ZipFile(wheel).namelist() if not name.startswith(f"{NAME}.dist-info/")}

    assert {name for name in inside if not name.startswith("sottovoce.egg-info/")} == tracked - ELSEWHERE | MADE
    wanted = set[str]()
    for package, folder in PACKAGES.items():
        for pattern in ["*.py", *SETUPTOOLS["package-data"].get(package, [])]:
            here = {name for name in tracked if Path(name).parent.is_relative_to(folder)}
            found = {path.relative_to(ROOT / folder).as_posix() for path in (ROOT / folder).glob(pattern)}
            wanted |= {f"{package.replace('.', '/')}/{name}" for name in found if f"{folder}/{name}" in here}
    assert installed == wanted
    assert {
        "sottovoce/py.typed",
        "sottovoce/graphs/debate.py",
        "sottovoce/models/bundled/model.safetensors",
    } <= installed


def test_the_version_of_a_release_is_the_same_everywhere() -> None:
    cited = re.findall(r"^(version|date-released): (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    changes = re.findall(r"^## (\S+), (\d.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)

    assert dict(cited) == {"version": sottovoce.__version__, "date-released": changes[0][1]}
    assert changes[0][0] == sottovoce.__version__
