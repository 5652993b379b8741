"""Names and docstrings use the words of docs/glossary.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOT_OURS = ("tests", "site", "build", "dist")
QUESTIONS = re.compile(r"(What|Who|Whose|Whom|Whether|Of)\b")
KEPT = {
    "asked": "a key of messages, votes and progress events",
    "begun": "a key of messages",
    "beside": "a key of decisions",
    "carry": "an option of the relay",
    "donors": "a key of messages",
    "edits": "edits of hidden states, the word of the field; elsewhere it stood for checks of a state",
    "found": "a key of the relay's state and of measured temperatures",
    "guide": "an option",
    "heard": "a key of a discussion's state",
    "held": "a key of a discussion's state",
    "lost": "an option",
    "wanted": "a key of GovSim's state",
    "what": "a key of interventions",
    "wordings": "a field of questions, and its option",
    "written": "a key of interventions",
}
"""Banned names that stay, as they are keys of files and states, options, or a term: why. Only fields may have them."""
Offender = tuple[int, str]
"""A line and what is wrong there."""


@cache
def parsed() -> list[tuple[str, ast.Module]]:
    return [*sources()]


def sources() -> Iterator[tuple[str, ast.Module]]:
    """Yield the path and the syntax tree of each Python file outside tests; links are not followed."""
    for path in sorted(ROOT.glob("**/*.py")):
        top = path.relative_to(ROOT).parts[0]
        if not top.startswith(".") and top not in NOT_OURS and not any(parent.is_symlink() for parent in path.parents):
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


@cache
def walked(tree: ast.AST) -> list[ast.AST]:
    """Return every node of a tree; several tests look at all files."""
    return [*ast.walk(tree)]


def banned() -> set[str]:
    """Return the names in the last column of the glossary's tables, and those of its last section."""
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    tables, _, nothing = page.partition("## Names that say nothing")
    cells = [line.rstrip("| ").rpartition("|")[2] for line in tables.splitlines() if line.startswith("| ")]
    return {name for text in [*cells, nothing.partition("banned too:")[2]] for name in re.findall(r"`(\w+)`", text)}


def names(tree: ast.Module) -> Iterator[Offender]:
    """Yield each class, function, parameter, field and module constant with its line."""
    for node in walked(tree):
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
    for node in walked(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if text := ast.get_docstring(node):
                yield getattr(node, "lineno", 1), text.partition("\n")[0]


def fields(tree: ast.Module) -> set[Offender]:
    """Return the fields of all classes with their lines."""
    classes = [node for node in walked(tree) if isinstance(node, ast.ClassDef)]
    lines = [line for node in classes for line in node.body if isinstance(line, ast.AnnAssign)]
    return {(line.lineno, line.target.id) for line in lines if isinstance(line.target, ast.Name)}


def compared(tree: ast.Module) -> set[Offender]:
    """Return the parameters of comparisons, whose `other` is Python's own word."""
    methods = [node for node in walked(tree) if isinstance(node, ast.FunctionDef) and node.name == "__eq__"]
    return {(argument.lineno, argument.arg) for method in methods for argument in method.args.args}


def test_no_name_is_banned_by_the_glossary() -> None:
    words, offenders = banned(), list[str]()
    for path, tree in parsed():
        own, same = fields(tree), compared(tree)
        for line, name in [(1, Path(path).stem), *names(tree)]:
            kept = name in KEPT and (name == "edits" or (line, name) in own)
            if name.lstrip("_") in words and not kept and (line, name) not in same:
                offenders.append(f"{path}:{line}: {name}")
    assert len(words) > 100 and not offenders, "\n".join(["say the glossary's word instead of:", *offenders])


def test_no_docstring_begins_with_a_question_word() -> None:
    offenders = [
        f"{path}:{line}: {text}" for path, tree in parsed() for line, text in docstrings(tree) if QUESTIONS.match(text)
    ]
    assert not offenders, "\n".join(offenders)


ROOMS = (
    *("agents", "channels", "environments", "graphs", "models", "monitors", "nodes", "prompts", "retrievers"),
    *("sottovoce/core", "sottovoce/datasets", "sottovoce/runs"),
)
FOR_THE_COMMAND_LINE = {
    "models/huggingface/load_files.py": "an option of another program",
    "retrievers/google.py": "an option of pip",
    "retrievers/pyserini.py": "it names a command",
    "sottovoce/datasets/question_source.py": "it reads the options themselves",
    "sottovoce/datasets/samples.py": "--help-all lists the samples",
    "sottovoce/datasets/trained.py": "it completes a command line",
    "sottovoce/runs/run_directory.py": "it names a command",
}


def test_errors_below_the_command_line_name_settings_as_python_writes_them() -> None:
    offenders = [
        f"{path}:{text.lineno}: {text.value}"
        for path, tree in parsed()
        if path.startswith(ROOMS) and path not in FOR_THE_COMMAND_LINE
        for error in ast.walk(tree)
        if isinstance(error, ast.Raise)
        for text in ast.walk(error)
        if isinstance(text, ast.Constant) and isinstance(text.value, str) and re.search(r"--[a-z]", text.value)
    ]
    assert not offenders, "\n".join(["write `setting='value'`, which cli.options turns into options:", *offenders])
