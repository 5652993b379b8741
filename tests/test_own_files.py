"""Only a scheme's own files name it, and only channels ask which protocol it is, but for the exceptions listed here."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from sottovoce.channels import PROTOCOLS
from sottovoce.graphs import NAMES, scheme, shipped
from tests.test_words import parsed, walked

OUTSIDE = ("benchmarks", "docs", "examples")
"""Folders that may name schemes and protocols: they are about given ones."""
NAMES_SCHEMES = {
    "environments/__init__.py": "the worlds and their samples by name, so that a command imports its own world alone",
    "environments/encyclopedia.py": "its articles are pages of ReAct's world",
    "environments/problems.py": "runs CodeGen's tests",
    "experiments/rows.py": "the baselines that a row is matched with",
    "experiments/row_content.py": "the baseline with a number of samples",
    "graphs/scheme.py": "the list of bundled schemes",
    "nodes/evidence.py": "the relay's library",
    "prompts/__init__.py": "the schemes that a bundled model was trained on",
    "sottovoce/analysis/scorers.py": "a judge is a single agent",
    "sottovoce/cli/experiment.py": "the schemes of SDE's search for layers",
    "sottovoce/cli/run_tables.py": "a judge is a single agent",
    "sottovoce/runs/manifest.py": "its prompts are shared; the digest of this folder is in saved runs",
}
NAMES_PROTOCOLS = {
    "models/doctor.py": "says which protocols a model can use",
    "sottovoce/cli/experiment.py": "SDE is the protocol of the search for layers if none is given",
}
WORDS = ("thoughts",)
"""Protocols whose names are words that other files use too."""
PLAIN = "nl"
"""The protocol of plain text, in which judges and secretaries reply under every protocol."""


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield each string of a file with its line, except docstrings."""
    alone = {id(node.value) for node in walked(tree) if isinstance(node, ast.Expr)}
    for node in walked(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.lineno, node.value


def scheme_names(path: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the schemes that a file names, in strings and imports, unless the file or its folder is named after one."""
    own = tuple(part.removesuffix(".py") for part in path.split("/"))
    known = {name: name for name in NAMES} | {each.command: each.name for each in shipped()}
    known |= {each.settings.__name__: each.name for each in shipped()}
    imported = (
        (node.lineno, word)
        for node in walked(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sottovoce")
        for word in (*(node.module or "").split("."), *(alias.name for alias in node.names))
    )
    for line, word in [*texts(tree), *imported]:
        if (name := known.get(word)) and not any(part.startswith(name) for part in own):
            yield line, name


def protocol_names(path: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the protocols that a file outside channels names, except plain text."""
    known = {*PROTOCOLS.names()} - {PLAIN, *WORDS}
    yield from ((line, text) for line, text in texts(tree) if text in known and not path.startswith("channels/"))


@pytest.mark.parametrize(
    ("find", "exceptions"),
    [(scheme_names, NAMES_SCHEMES), (protocol_names, NAMES_PROTOCOLS)],
    ids=["scheme", "protocol"],
)
def test_nothing_else_names_it(find, exceptions) -> None:  # type: ignore[no-untyped-def]
    found = {path: [*find(path, tree)] for path, tree in parsed() if not path.startswith(OUTSIDE)}

    assert {path: lines for path, lines in found.items() if lines and path not in exceptions} == {}


def test_every_settings_class_is_of_one_scheme() -> None:
    assert len({each.settings for each in map(scheme, NAMES)}) == len(NAMES)
