"""The files of published tables.

Nothing here imports torch or langgraph.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from sottovoce.core.errors import UsageError, nearest
from sottovoce.experiments.tables.table_schema import Published
from sottovoce.settings.plain import read_yaml

WHAT = "published table"
EXAMPLES = "file of worked examples"


def names() -> list[str]:
    """Return the names of all tables, in order."""
    return sorted(path.stem for path in _folder().glob("*.yaml"))


def read_published(name: str) -> Published:
    """Return a table by name.

    Raises:
        UsageError: there is no such table, or its file is wrong.
    """
    if name not in (known := names()):
        raise UsageError(nearest(WHAT, name, known) + "; `experiment reproduce` lists them")
    return read_table(_folder() / f"{name}.yaml")


def read_table(path: Path) -> Published:
    """Return the table in a file.

    Raises:
        UsageError: the file cannot be read, or something in it is wrong.
    """
    given = read_yaml(path, WHAT, "paper: {name: SDE, arxiv: '2506.19209', place: Table 2}")
    try:
        return Published.model_validate(given)
    except UsageError as error:
        raise UsageError(f"{error} ({WHAT} {str(path)!r})") from error


def examples_of(name: str) -> list[str]:
    """Return worked examples by the file of a paper and the task in it, such as "cipher/gsm8k".

    Raises:
        UsageError: there is no such file, or the task is not in it.
    """
    paper, _, task = name.partition("/")
    given = read_yaml(_folder() / "examples" / f"{paper}.yaml", EXAMPLES, "gsm8k: [QUESTION AND SOLUTION]")
    if task not in given:
        raise UsageError(nearest(f"task in the {EXAMPLES} of {paper}", task, given))
    return [str(each) for each in given[task]]


def _folder() -> Path:
    """Return the folder of tables: installed next to the package's own folders, and linked there in a checkout."""
    return Path(str(files("sottovoce"))) / "experiments" / "published"
