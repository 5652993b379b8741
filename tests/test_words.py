"""Plain English in docstrings (CONTRIBUTING.md): they say what a thing does or is, as the standard library's do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
OTHERS = ("tests", "site", "build", "dist")
QUESTIONS = re.compile(r"(What|Who|Whose|Whom|Whether|Of)\b")


def documented(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the docstring of a module and of all that it defines."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if text := ast.get_docstring(node):
                yield getattr(node, "lineno", 1), text


def files() -> Iterator[Path]:
    for path in sorted(ROOT.glob("**/*.py")):
        top = path.relative_to(ROOT).parts[0]
        if not top.startswith(".") and top not in OTHERS and not any(each.is_symlink() for each in path.parents):
            yield path


def test_no_docstring_begins_with_a_question_word() -> None:
    offenders = [
        f"{path.relative_to(ROOT)}:{line}: {text.partition(chr(10))[0]}"
        for path in files()
        for line, text in documented(path)
        if QUESTIONS.match(text)
    ]
    assert not offenders, "\n".join(offenders)
