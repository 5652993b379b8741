"""The experiment of one model and one part of a published table.

Nothing here imports torch or langgraph.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from sottovoce.core.errors import UsageError, nearest
from sottovoce.experiments.schema import Content
from sottovoce.experiments.tables.table_files import examples_of
from sottovoce.experiments.tables.table_schema import Published
from sottovoce.graphs import scheme

DATA = "{data}"
"""Placeholder in settings for the folder of data sets."""
SMALL: Content = {"model": "bundled", "max_tokens": 16, "step_tokens": 16, "select_tokens": 16}
"""Settings of a small run, for all rows whose scheme has them."""
IN_ITS_PLACE: Content = {
    "layers": [1], "library": "encyclopedia", "wiki": "encyclopedia", "google": "encyclopedia:1"
}  # fmt: skip
"""Values of a small run that are available everywhere, for rows that have these settings."""
SAMPLING = ("sample", "limit")


def experiment_of(table: Published, model: str, part: str, data: Path, *, weights: str | None = None) -> Content:
    """Return the content of an experiment file for this model and part, with paths of files in `data`.

    Args:
        table: The published table.
        model: One of its models.
        part: One of its parts.
        data: The folder of data sets, and of the other files that the table needs.
        weights: A model that replaces the table's own, for all agents.
    """
    common = {**table.settings, "model": [weights] if weights else table.models[model]}
    rows = {name: _merged(common, row, weights) for name, row in table.rows_of(model, part).items()}
    questions = dict(table.parts[part])
    if "file" in questions:
        questions["file"] = str(data.resolve() / questions["file"])
    if "examples" in questions:
        questions["task_demonstration"] = examples_of(questions.pop("examples"))
    return _experiment(table, model, part, questions, _placed(rows, str(data.resolve())))


def small_of(table: Published, model: str, part: str, data: Path) -> Content:
    """Return a small experiment for this model and part: the bundled model, a few generated questions, short replies.

    Each row keeps its scheme, protocol, roles, temperatures and monitors; `data` contains stand-ins for the monitors.
    """
    rows = {name: _small(table, model, row) for name, row in table.rows_of(model, part).items()}
    own = table.parts[part].get("sample")
    questions = {"sample": table.small.get("sample", own or "arithmetic/1"), "limit": table.small.get("limit", 1)}
    return _experiment(table, model, part, questions, _placed(rows, str(data.resolve())), seeds=table.seeds[:1])


def chosen(what: str, names: Collection[str], known: Collection[str]) -> list[str]:
    """Return those of `known` that are in `names`, in the order of `known`; all if `names` is empty.

    Raises:
        UsageError: a name is unknown.
    """
    for name in names:
        if name not in known:
            raise UsageError(nearest(what, name, known))
    return [name for name in known if name in names or not names]


def _experiment(
    table: Published,
    model: str,
    part: str,
    questions: Content,
    rows: Mapping[str, Content],
    seeds: list[int] | None = None,
) -> Content:
    about = f"{table.paper.words}: {model}, {part}. {table.about.strip()}"
    made: Content = {"about": about, "questions": questions, "seeds": seeds or table.seeds, "rows": dict(rows)}
    return made | ({"against": table.against} if table.against in rows else {})


def _merged(common: Content, row: Content, weights: str | None) -> Content:
    """Return a row with the common settings that its scheme has; `weights` replaces the models of all agents."""
    fields = _fields(row)
    shared = {_plain(name): value for name, value in common.items() if _plain(name) in fields}
    own = {_plain(name): value for name, value in row.items()}
    return {**shared, **own, **({"model": [weights]} if weights else {})}


def _small(table: Published, model: str, row: Content) -> Content:
    found = _merged({**table.settings, "model": table.models[model]}, row, None)
    there = {name: value for name, value in IN_ITS_PLACE.items() if found.get(name)}
    mine = {_plain(name): value for name, value in table.small.items() if name not in SAMPLING}
    more = {
        name: _least(value, found.get(name))
        for name, value in {**SMALL, **there, **mine}.items()
        if name in _fields(row)
    }
    seats = len(found["model"]) if isinstance(found["model"], list) else 1
    return {**found, **more, "model": [SMALL["model"]] * seats}


def _least(small: Any, own: Any) -> Any:  # Any: parsed YAML
    """Return the smaller of two whole numbers, so that one round stays one; otherwise `small`."""
    return min(small, own) if type(small) is int and type(own) is int else small


def _fields(row: Content) -> Collection[str]:
    """Return the settings of a row's scheme.

    Raises:
        UsageError: the row has no scheme, or an unknown one.
    """
    if "scheme" not in row:
        raise UsageError(f"a row is {row!r}; expected a scheme with settings, such as {{scheme: debate, rounds: 2}}")
    return scheme(str(row["scheme"]).replace("-", "_")).settings.model_fields


def _placed(given: Any, folder: str) -> Any:  # Any: parsed YAML
    """Return the value with the folder of data sets in place of its placeholder."""
    if isinstance(given, Mapping):
        return {name: _placed(value, folder) for name, value in given.items()}
    if isinstance(given, list):
        return [_placed(each, folder) for each in given]
    return given.replace(DATA, folder) if isinstance(given, str) else given


def _plain(name: object) -> str:
    return str(name).replace("-", "_")
