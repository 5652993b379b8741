"""What holds for the repository as a whole: packaging, folders and their maps, and what no source may do."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import sottovoce
from sottovoce.core.any_types import JSON
from tests import warm
from tests.tables import some
from tests.test_words import parsed, walked

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT: JSON = tomllib.loads((ROOT / "pyproject.toml").read_text())
SETUPTOOLS = PYPROJECT["tool"]["setuptools"]
CHECKOUT_ONLY = {"benchmarks", "tests"}  # folders that are not installed


def folder_of(package: str) -> str:
    """Where a package lies, as setuptools reads its mapping."""
    top = ".".join(package.split(".")[:2])
    return package.replace(top, SETUPTOOLS["package-dir"].get(top, top), 1).replace(".", "/")


PACKAGES = {package: folder_of(package) for package in SETUPTOOLS["packages"]}
"""Where each package lies, relative to the root."""


@pytest.fixture(scope="module")
def files() -> list[Path]:
    """Every file that is or could be committed, relative to the root; links count as files."""
    listing = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        found = subprocess.run(listing, capture_output=True, check=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs a git checkout: it asks which files are ours")
    paths = [Path(name) for name in sorted(set(found.split("\0"))) if name]
    return [path for path in paths if (ROOT / path).exists()]


def sources(files: list[Path]) -> list[Path]:
    """Our Python files, without the tests: those may build what we refuse."""
    return [path for path in files if path.suffix == ".py" and path.parts[0] != "tests"]


# Packaging


def package_of(folder: Path) -> str:
    """The import name of a folder at the root."""
    parts = folder.parts if folder.parts[0] == "sottovoce" else ("sottovoce", *folder.parts)
    return ".".join(parts)


def test_every_folder_with_an_init_is_listed_as_a_package(files: list[Path]) -> None:
    folders = {path.parent for path in files if path.name == "__init__.py" and path.parts[0] not in CHECKOUT_ONLY}

    assert {package_of(folder): folder.as_posix() for folder in folders} == PACKAGES


def test_every_link_points_to_the_folder_that_the_mapping_names(files: list[Path]) -> None:
    links = {path.name: (ROOT / path).readlink().as_posix() for path in files if (ROOT / path).is_symlink()}
    mapping = SETUPTOOLS["package-dir"]

    assert mapping == {f"sottovoce.{folder}": folder for folder in links}
    assert links == {folder: f"../{folder}" for folder in mapping.values()}


FOUND = f"""
from importlib.util import find_spec
from sottovoce import Debate, create_debate
print(Debate(rounds=1).rounds, [name for name in {sorted(SETUPTOOLS["package-dir"])} if not find_spec(name)])
"""


@pytest.mark.parametrize("links", some(["text files", "absent"], "text files"))  # as in Windows, and in a zip file
def test_a_checkout_without_links_runs_uninstalled(links: str, files: list[Path], tmp_path: Path) -> None:
    """Git writes links as text files where `core.symlinks` is off; `-S` skips an installed checkout."""
    for path in (path for path in files if path.parts[0] in {*PACKAGES.values(), "cli.py"}):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        if not (ROOT / path).is_symlink():
            shutil.copyfile(ROOT / path, tmp_path / path)
        elif links == "text files":
            (tmp_path / path).write_text((ROOT / path).readlink().as_posix())
    env = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}

    for arguments, shown in ((("cli.py", "--help"), "debate"), (("-c", FOUND), "1 []")):
        call = [sys.executable, "-S", *arguments]
        done = subprocess.run(call, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert shown in done.stdout, done.stderr


def test_every_file_of_a_package_is_installed_with_it(files: list[Path]) -> None:
    installed = {
        path
        for package, folder in PACKAGES.items()
        for pattern in SETUPTOOLS["package-data"].get(package, [])
        for path in (ROOT / folder).glob(pattern)
    }
    data = [
        path
        for path in files
        if path.parts[0] in PACKAGES.values()
        and not (ROOT / path).is_symlink()
        and path.suffix != ".py"
        and path.name != "README.md"
    ]

    assert [str(path) for path in data if ROOT / path not in installed] == []


def test_the_version_is_the_same_in_package_and_metadata() -> None:
    assert importlib.metadata.version("sottovoce") == sottovoce.__version__


def test_langgraph_json_is_what_the_schemes_records_say() -> None:
    """`python -m sottovoce.graphs > langgraph.json` brings it up to date."""
    written = (ROOT / "langgraph.json").read_text(encoding="utf-8")
    made = warm.run("from sottovoce.graphs.__main__ import main; main()", cwd=ROOT).stdout

    assert written == made
    for entry in json.loads(written)["graphs"].values():
        module, _, factory = entry["path"].partition(":")
        assert hasattr(importlib.import_module(module), factory), f"{entry['path']} does not exist"


# Maps


def test_every_folder_has_a_readme_with_one_line_for_each_file() -> None:
    """`python docs/maps.py` brings them up to date."""
    checked = subprocess.run([sys.executable, "docs/maps.py", "--check"], cwd=ROOT, capture_output=True, text=True)

    assert checked.returncode == 0, checked.stderr


MACHINE_PATH = re.compile(r"(?<![\w.~/)}$*-])/(?:work|root|home)\b(?!\w)")


def test_no_file_names_a_path_of_one_machine(files: list[Path]) -> None:
    found = []
    for path in files:
        if (ROOT / path).is_dir():  # a link
            continue
        try:
            lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:  # weights and pictures
            continue
        found += [f"{path}:{n}: {line[:100]}" for n, line in enumerate(lines, 1) if MACHINE_PATH.search(line)]

    assert found == []


# What no source may do: ruff bans the same names, but a `noqa` or an alias gets past ruff

PICKLES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}
RUNS_TEXT = {"eval", "exec", "torch.load", "builtins.eval", "builtins.exec"}
UNSAFE_FLAGS = {"allow_pickle": True, "trust_remote_code": True, "weights_only": False, "use_safetensors": False}


def imported(tree: ast.AST) -> Iterator[tuple[str, str, int]]:
    """Each imported name: as the file calls it, its full name, and its line."""
    for node in walked(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.name if alias.asname else alias.name.partition(".")[0]
                yield alias.asname or name, name, node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}", node.lineno


def unsafe(tree: ast.Module) -> list[str]:
    """What a source does that could run what a stranger wrote, one line each."""
    names = {known_as: name for known_as, name, _ in imported(tree)}
    found = [f"{line}: imports {name}" for _, name, line in imported(tree) if name.partition(".")[0] in PICKLES]
    for node in walked(tree):
        if not isinstance(node, ast.Call):
            continue
        first, _, rest = ast.unparse(node.func).partition(".")
        called = ".".join(filter(None, (names.get(first, first), rest)))
        if called in RUNS_TEXT:
            found.append(f"{node.lineno}: calls {called}")
        for keyword in node.keywords:
            value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
            if keyword.arg in UNSAFE_FLAGS and value is UNSAFE_FLAGS[keyword.arg]:
                found.append(f"{node.lineno}: passes {keyword.arg}={value}")
    return found


SEEN = [
    *("import pickle", "from pickle import loads as read", "import shelve as s", "eval('1')"),
    *("import builtins as b\nb.exec('1')", "import torch as t\nt.load('w.bin')", "from torch import load\nload('w')"),
    *("AutoModel.from_pretrained(path, trust_remote_code=True)", "numpy.load(path, allow_pickle=True)"),
]


def test_what_runs_a_strangers_code_is_seen() -> None:
    assert [source for source in SEEN if len(unsafe(ast.parse(source))) != 1] == []


def test_no_source_runs_or_unpickles_what_a_stranger_wrote() -> None:
    assert [f"{path}:{line}" for path, tree in parsed() for line in unsafe(tree)] == []


# Which modules know which. Imports inside functions and for types alone count too: a cycle is a cycle.


def modules_of(files: list[Path]) -> dict[str, Path]:
    """Our modules by their full name."""
    packaged = [path for path in sources(files) if path.parent.as_posix() in PACKAGES.values()]
    return {package_of(path.parent if path.stem == "__init__" else path.with_suffix("")): path for path in packaged}


def known_to(path: Path, modules: dict[str, Path]) -> set[str]:
    """The modules that a file imports, at any place; a name from a package counts as the package."""
    names = {name for _, name, _ in imported(dict(parsed())[path.as_posix()])}
    return {name if name in modules else name.rpartition(".")[0] for name in names} & modules.keys()


def cycle_in(graph: dict[str, set[str]]) -> list[str]:
    """Modules that import one another in a ring, or none."""
    left = dict(graph)
    while leaves := [name for name, known in left.items() if not known & left.keys()]:
        for name in leaves:
            del left[name]
    return sorted(left)


def test_no_module_is_imported_by_what_it_imports(files: list[Path]) -> None:
    modules = modules_of(files)
    graph = {name: known_to(path, modules) for name, path in modules.items()}

    assert len(graph) > 100 and cycle_in(graph) == []
