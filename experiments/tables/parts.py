"""The experiment of one model and one part of a published table: as published or small, and what it needs.

Nothing here imports torch or langgraph.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from sottovoce.core.any_types import JSONValue
from sottovoce.core.errors import UsageError
from sottovoce.experiments.row_content import Content, plain
from sottovoce.experiments.tables.table import Published, examples_of
from sottovoce.graphs import scheme

DATA = "{data}"
"""Placeholder in settings for the folder of data sets."""
HOSTED, BUNDLED = "hosted:", "bundled"
"""A hosted model's prefix (as in `agents.hosted`, which imports langchain), and the name of the bundled model."""
SMALL: Content = {"max_tokens": 16, "step_tokens": 16, "select_tokens": 16}
"""Settings of a small run, for all rows whose scheme has them."""
REPLACED: Content = {
    "layers": [1],
    "layer_from": 1,
    "layer_to": 1,
    "library": "encyclopedia",
    "wiki": "encyclopedia",
    "google": "encyclopedia",
}
"""Values of a small run that are available everywhere, for rows that have these settings."""
MONITOR = ".json"


def experiment_of(table: Published, model: str, part: str, data: Path, *, weights: str | None = None) -> Content:
    """Return the content of an experiment file for this model and part, with paths of files in `data`.

    Args:
        table: The published table.
        model: One of its models.
        part: One of its parts.
        data: The folder of data sets, and of the other files that the table needs.
        weights: A model that replaces the table's own, for all agents.
    """
    rows = {name: _merged(table, model, row) for name, row in table.rows_of(model, part).items()}
    if weights:
        rows = {name: {**row, "model": [weights]} for name, row in rows.items()}
    questions = dict(table.parts[part])
    if "file" in questions:
        questions["file"] = str(data.resolve() / questions["file"])
    if "examples" in questions:
        questions["task_demonstration"] = examples_of(questions.pop("examples"))
    return _experiment(table, model, part, questions, table.seeds, rows, data)


def small_of(table: Published, model: str, part: str, data: Path) -> Content:
    """Return a small experiment for this model and part: the bundled model, a few generated questions, short replies.

    Each row keeps its scheme, protocol, roles, temperatures and monitors; `data` contains stand-ins for the monitors.
    """
    small = {plain(name): value for name, value in table.small.items()}
    sample = small.pop("sample", table.parts[part].get("sample", "arithmetic/1"))
    questions = {"sample": sample, "limit": small.pop("limit", 1)}
    rows = dict[str, Content]()
    for name, row in table.rows_of(model, part).items():
        full = _merged(table, model, row)
        replaced = {key: value for key, value in REPLACED.items() if full.get(key)}
        fields = _fields(row)
        shorter = {key: value for key, value in {**SMALL, **replaced, **small}.items() if key in fields}
        for key, own in full.items():  # so that one round stays one
            if type(own) is int and type(shorter.get(key)) is int:
                shorter[key] = min(own, shorter[key])
        agents = len(full["model"]) if isinstance(full["model"], list) else 1
        rows[name] = {**full, **shorter, "model": [BUNDLED] * agents}
    return _experiment(table, model, part, questions, table.seeds[:1], rows, data)


def write_stand_ins(table: Published, folder: Path) -> None:
    """Write a stand-in for each trained monitor that the table needs, for small runs; it always triggers.

    A monitor's role is its file's name up to the first dot: "accuser.second.json" is the Accuser's.
    """
    from sottovoce.monitors.monitor import Monitor  # late: numpy takes its time

    for name in table.needs:
        if name.endswith(MONITOR):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            Monitor(
                role=path.name.partition(".")[0],
                features=("entropy", "turn"),
                log_features=False,
                bounds=((0.0, 1.0), (0.0, 15.0)),
                exponents=((0, 0),),
                coefficients=(0.0,),
                intercept=1.0,
                threshold=0.5,
            ).save(path)


def missing(table: Published, model: str, part: str, data: Path) -> list[str]:
    """Return why this model and part cannot run here: missing files and retired models, a line each."""
    questions = table.parts[part]
    settings = str([table.settings, *table.rows_of(model, part).values()])
    files = (
        [(str(questions["file"]), f"the data set {questions.get('dataset', part)!r}")] if "file" in questions else []
    )
    # Settings name a file after the placeholder for the folder of data sets.
    files += [(name, how) for name, how in table.needs.items() if f"/{name}" in settings]
    absent: dict[str, list[str]] = {}
    for name, how in files:
        if not (data / name).exists():
            absent.setdefault(how, []).append(repr(str(data / name)))
    lines = [f"{', '.join(paths)} {'is' if len(paths) == 1 else 'are'} missing: {how}" for how, paths in absent.items()]
    return lines + ([f"{model!r} is no longer available: {table.gone[model]}"] if model in table.gone else [])


def weights_here(names: list[str]) -> str:
    """Return "here", "hosted" or "not here" for the models of a table."""
    if all(name.startswith(HOSTED) for name in names):
        return "hosted"
    from huggingface_hub import try_to_load_from_cache  # late: `--help` needs none

    here = (name == BUNDLED or Path(name).exists() or try_to_load_from_cache(name, "config.json") for name in names)
    return "here" if all(isinstance(path, (bool, str)) and path for path in here) else "not here"


def _experiment(
    table: Published,
    model: str,
    part: str,
    questions: Content,
    seeds: list[int],
    rows: Content,
    data: Path,
) -> Content:
    about = f"{table.paper.words}: {model}, {part}. {table.about.strip()}"
    placed = _with_folder(rows, str(data.resolve()))
    against = {"against": table.against} if table.against in rows else {}
    return {"about": about, "questions": questions, "seeds": seeds, "rows": placed, **against}


def _merged(table: Published, model: str, row: Content) -> Content:
    """Return a row with the table's settings and models, as far as its scheme has them."""
    fields, common = _fields(row), {**table.settings, "model": table.models[model]}
    shared = {plain(name): value for name, value in common.items() if plain(name) in fields}
    return {**shared, **{plain(name): value for name, value in row.items()}}


def _fields(row: Content) -> Collection[str]:
    """Return the settings of a row's scheme.

    Raises:
        UsageError: the row has no scheme, or an unknown one.
    """
    if "scheme" not in row:
        raise UsageError(f"a row is {row!r}; expected a scheme with settings, such as {{scheme: debate, rounds: 2}}")
    return scheme(plain(row["scheme"])).settings.model_fields


def _with_folder(value: JSONValue, folder: str) -> JSONValue:
    """Return the value with the folder of data sets in place of its placeholder."""
    if isinstance(value, Mapping):
        return {name: _with_folder(item, folder) for name, item in value.items()}
    if isinstance(value, list):
        return [_with_folder(item, folder) for item in value]
    return value.replace(DATA, folder) if isinstance(value, str) else value
