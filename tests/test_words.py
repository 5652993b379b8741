"""Names and docstrings use the words of docs/glossary.md."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOT_OURS = ("tests", "site", "build", "dist")
QUESTIONS = re.compile(r"(What|Who|Whose|Whom|Whether|Of)\b")
LEFT = {
    "models": 76,
    "nodes": 72,
    "channels": 22,
    "graphs": 20,
    "sottovoce": 14,
    "monitors": 11,
    "agents": 7,
    "environments": 2,
    "training": 1,
}
"""How many banned names are left in a folder, some of them keys on disk or in a state; a count may only fall."""
Offender = tuple[int, str]
"""A line and what is wrong there."""


def sources() -> Iterator[tuple[str, ast.Module]]:
    """Yield the path and the syntax tree of each Python file outside tests; links are not followed."""
    for path in sorted(ROOT.glob("**/*.py")):
        top = path.relative_to(ROOT).parts[0]
        if not top.startswith(".") and top not in NOT_OURS and not any(parent.is_symlink() for parent in path.parents):
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def banned() -> set[str]:
    """Return the names in the last column of the glossary's tables, and those of its last section."""
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    tables, _, nothing = page.partition("## Names that say nothing")
    cells = [line.rstrip("| ").rpartition("|")[2] for line in tables.splitlines() if line.startswith("| ")]
    return {name for text in [*cells, nothing.partition("banned too:")[2]] for name in re.findall(r"`(\w+)`", text)}


def names(tree: ast.Module) -> Iterator[Offender]:
    """Yield each class, function, parameter, field and module constant with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Attribute(value=ast.Name(id="self"), ctx=ast.Store()):
                yield node.lineno, node.attr
        if isinstance(node, ast.Module | ast.ClassDef):
            for line in node.body:
                targets = line.targets if isinstance(line, ast.Assign) else [getattr(line, "target", None)]
                yield from ((line.lineno, target.id) for target in targets if isinstance(target, ast.Name))


def docstrings(tree: ast.Module) -> Iterator[Offender]:
    """Yield the line and the first line of each docstring."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if text := ast.get_docstring(node):
                yield getattr(node, "lineno", 1), text.partition("\n")[0]


def test_no_name_is_banned_by_the_glossary() -> None:
    words, offenders = banned(), defaultdict[str, list[str]](list)
    for path, tree in sources():
        found = [(1, Path(path).stem), *names(tree)]
        offenders[path.partition("/")[0]] += [f"{path}:{n}: {name}" for n, name in found if name.lstrip("_") in words]
    more = [line for folder, lines in offenders.items() if len(lines) > LEFT.get(folder, 0) for line in lines]
    assert len(words) > 100 and not more, "\n".join(["say the glossary's word instead of:", *more])


def test_no_docstring_begins_with_a_question_word() -> None:
    offenders = [
        f"{path}:{line}: {text}" for path, tree in sources() for line, text in docstrings(tree) if QUESTIONS.match(text)
    ]
    assert not offenders, "\n".join(offenders)
