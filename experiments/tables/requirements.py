"""The requirements of a published table that this machine does not meet, one line each.

Nothing here imports torch or langgraph.
"""

from __future__ import annotations

from pathlib import Path

from sottovoce.experiments.tables.table_schema import Published

HOSTED = "hosted:"  # as in agents.hosted, which imports langchain
BUNDLED = "bundled"


def lacking(table: Published, model: str, part: str, data: Path) -> list[str]:
    """Return why this model and part cannot run here: missing files and retired models."""
    given = table.parts[part]
    files = [] if "file" not in given else [(str(given["file"]), f"the data set {given.get('dataset', part)!r}")]
    files += [(name, how) for name, how in table.needs.items() if _used(table, model, part, name)]
    absent: dict[str, list[str]] = {}
    for name, how in files:
        if not (data / name).exists():
            absent.setdefault(how, []).append(repr(str(data / name)))
    found = [f"{', '.join(each)} {'is' if len(each) == 1 else 'are'} missing: {how}" for how, each in absent.items()]
    return found + ([f"{model!r} is no longer available: {table.gone[model]}"] if model in table.gone else [])


def weights_here(names: list[str]) -> str:
    """Return "here", "hosted" or "not here" for the models of a table."""
    return "here" if all(map(_is_here, names)) else "hosted" if all(map(_is_hosted, names)) else "not here"


def _is_here(name: str) -> bool:
    if name == BUNDLED or Path(name).exists():
        return True
    if _is_hosted(name):
        return False
    from huggingface_hub import try_to_load_from_cache  # late: `--help` needs none

    return isinstance(try_to_load_from_cache(name, "config.json"), str)


def _is_hosted(name: str) -> bool:
    return name.startswith(HOSTED)


def _used(table: Published, model: str, part: str, name: str) -> bool:
    """Return whether a row names the file, after the placeholder for the folder of data sets."""
    return f"/{name}" in str([table.settings, *table.rows_of(model, part).values()])
