"""Hooks of the site's build: mkdocs generates the reference pages with them, and griffe reads docstrings."""

from __future__ import annotations

import re
from pathlib import Path

import griffe
from mkdocs.structure.files import File, Files

from sottovoce.core.any_types import Untyped

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("graphs", "nodes", "agents", "environments", "monitors", "prompts", "retrievers", "channels", "models")
ROOMS += ("experiments",)  # at the root; the others are in sottovoce/
ROOMS += tuple(f"sottovoce/{room}" for room in ("datasets", "runs", "verify", "analysis", "report"))
ROOMS += ("sottovoce/cli", "sottovoce/core")
OUTSIDE = {"models/bundled/README.md": "card.md", "models/README.md": "families.md"}
"""Files of other folders that are also pages."""
NAMES = "|".join(room.removeprefix("sottovoce/") for room in ROOMS)
ROOM = re.compile(rf"\.\./(?:sottovoce/)?((?:{NAMES}|sottovoce)(?:/[a-z]+)?)/\)")
"""The end of a link to a folder, which a clone shows; in the site it leads to the folder's page."""
EXAMPLE = re.compile(r"^>>> .+?(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: Untyped) -> Files:
    """Add a page for each folder, for each package in it, and for each file of OUTSIDE."""
    for room in ROOMS:
        name = room.removeprefix("sottovoce/")
        package = f"sottovoce.{name}"
        inside = sorted(path.parent.name for path in (ROOT / room).glob("*/__init__.py"))
        names = modules(package, ROOT / room)
        own = [name for name in names if not any(f"{name}.".startswith(f"{package}.{each}.") for each in inside)]
        files.append(File.generated(config, f"reference/{name}.md", content=_page(package, own)))
        for each in inside:
            content = _page(f"{package}.{each}", modules(f"{package}.{each}", ROOT / room / each))
            files.append(File.generated(config, f"reference/{name}/{each}.md", content=content))
    files.append(File.generated(config, "reference/sottovoce.md", content=_page("sottovoce", ["sottovoce"])))
    for path, page in OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / path).read_text(encoding="utf-8")))
    return files


def _page(package: str, names: list[str]) -> str:
    return "\n\n".join([f"# {package}", *(f"::: {name}" for name in names)])


def on_page_markdown(markdown: str, page: Untyped, **kwargs: Untyped) -> str:
    """Replace links that lead out of docs/ with links to pages."""
    for path, target in OUTSIDE.items():
        markdown = markdown.replace(f"../{path}", target)
    return ROOM.sub(r"reference/\1.md)", markdown)


def modules(package: str, folder: Path) -> list[str]:
    """Return the names of a package, its modules and subpackages; linked folders have other pages."""
    files = [path.relative_to(folder) for path in folder.rglob("*.py")]
    names = (path.parent if path.stem == "__init__" else path.with_suffix("") for path in files)
    return sorted(".".join([package, *path.parts]) for path in names if not path.name.startswith("_"))


class Examples(griffe.Extension):
    """A griffe extension that formats examples in docstrings as code."""

    def on_instance(self, *, obj: griffe.Object | griffe.Alias, **kwargs: Untyped) -> None:
        """Put a code fence around text that begins with >>>."""
        if isinstance(obj, griffe.Object) and obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(lambda match: f"```pycon\n{match[0]}\n```", obj.docstring.value)
