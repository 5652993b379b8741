"""Generator of the file lists in READMEs of folders: `python docs/maps.py [--check]`.

A file's line is the first sentence of its module docstring. Lines of other entries, and the text around the list, are
kept as written. With `--check` nothing is written, and the READMEs that are out of date are listed.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENTRY = re.compile(r"- \[?`([^`]+?)/?`")


def listed() -> dict[str, set[str]]:
    """Return the folders that have a list, relative to the root, each with its files and subfolders."""
    git = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(git, capture_output=True, check=True, text=True).stdout.split("\0")
    paths = [Path(name) for name in names if name and (ROOT / name).exists() and not (ROOT / name).is_symlink()]
    python = {path.parent for path in paths if path.suffix == ".py"}
    tops = {Path(*folder.parts[: 1 + (folder.parts[0] == "sottovoce")]) for folder in python if folder.parts}
    folders: dict[str, set[str]] = {top.as_posix(): set() for top in tops | {Path("sottovoce")}}
    for path in paths:
        for top in tops | {Path("sottovoce")}:
            if path.is_relative_to(top):
                folders[top.as_posix()].add(path.relative_to(top).parts[0])
    return {folder: names - {"README.md", "__init__.py", "__pycache__"} for folder, names in folders.items()}


def summary(path: Path) -> str:
    """Return the first sentence of a module's docstring; "" for a file without."""
    source = path / "__init__.py" if path.is_dir() else path
    if source.suffix != ".py" or not source.exists():
        return ""
    first = (ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or "").partition("\n\n")[0]
    return " ".join(first.split()).rstrip(".")


def renewed(folder: str, names: set[str]) -> str:
    """Return the README of a folder with its list brought up to date."""
    readme = ROOT / folder / "README.md"
    lines = readme.read_text(encoding="utf-8").splitlines() if readme.exists() else [f"# {folder}/", ""]
    old = {found[1]: line for line in lines if (found := ENTRY.match(line))}
    places = [at for at, line in enumerate(lines) if ENTRY.match(line)] or [len(lines)]
    order = [name for name in old if name in names] + sorted(names - old.keys())
    listing = []
    for name in order:
        text, line = summary(ROOT / folder / name), old.get(name, "")
        listing.append(f"- `{name}`: {text}" if (text and folder != "tests") or not line else line)
    return "\n".join([*lines[: places[0]], *listing, *lines[places[-1] + 1 :]]).rstrip() + "\n"


def main(arguments: list[str]) -> None:
    """Rewrite all lists, or name those that are out of date."""
    late = []
    for folder, names in sorted(listed().items()):
        readme = ROOT / folder / "README.md"
        if not readme.exists() or renewed(folder, names) != readme.read_text(encoding="utf-8"):
            late.append(f"{folder}/README.md")
            if "--check" not in arguments:
                readme.write_text(renewed(folder, names), encoding="utf-8")
    if "--check" in arguments and late:
        sys.exit(f"out of date: {', '.join(late)}; expected what `python docs/maps.py` writes: run it")


if __name__ == "__main__":
    main(sys.argv[1:])
