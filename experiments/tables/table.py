"""The format of a published table or figure: parts (data), models, rows, and the figures that are printed.

    paper: {name: SDE, arxiv: "2506.19209", place: Table 2}
    metrics: {accuracy: score}                     # as printed, and its meaning here: the score, or a measure
    parts: {gsm8k: {dataset: gsm8k, file: gsm8k/test.jsonl, limit: 300}}
    models: {qwen-7b: Qwen/Qwen2.5-7B-Instruct}    # a list: one for each agent
    seeds: [0, 1, 2]
    settings: {max-tokens: 512, prompts: paper}    # for all rows: each takes those that its scheme has
    rows: {single: {scheme: single}, sde: {scheme: debate, protocol: sde}}
    variants: {agents-2: {agents: 2}, agents-3: {agents: 3}}   # each row runs with each: sde-agents-2, ...
    where: [{rows: sde, models: qwen-7b, layers: [22]}]        # settings of some rows, models or parts
    published: {qwen-7b: {gsm8k: {single: .8789, sde: .9178}}}
    error: none                                    # the kind of error that is printed
    overlap: none, layers were chosen on another data set      # with data on which the authors chose settings

The files are in `experiments/published`; `parts` makes experiments of them. Nothing here imports torch or langgraph.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import ConfigDict, Field, PrivateAttr, field_validator, model_validator

from sottovoce.core.any_types import JSONValue, Unimported
from sottovoce.core.bounds import Seed
from sottovoce.core.errors import RecordError, UsageError, nearest
from sottovoce.core.outputs import write
from sottovoce.core.validation import Checked
from sottovoce.experiments.row_content import Content
from sottovoce.experiments.schema import Keyed
from sottovoce.experiments.tables.figures import FILE, Figures, as_json, by_metric
from sottovoce.settings.plain import read_yaml

STANDARD_ERROR, INTERVAL = "standard error", "95 % interval"
Error = Literal["none", "not said", "standard error", "95 % interval"]
"""The meaning of `spread` in {mean: 60.0, spread: 2.3}."""
SELECTS = ("rows", "models", "parts")
"""Keys that select where a line of `where` applies; its other keys are settings."""
ONLY, VARIED = "only", "varied"
"""Keys of a row besides its scheme and settings: {only: {parts: gsm8k}, varied: false}."""
TABLE, EXAMPLES = "published table", "file of worked examples"


class Paper(Checked):
    """The place where a table is printed."""

    name: str
    arxiv: str
    place: str
    """Such as "Table 2" or "Figure 5"."""

    @property
    def words(self) -> str:
        """The place in a phrase: "SDE (arXiv 2506.19209), Table 2"."""
        return f"{self.name} (arXiv {self.arxiv}), {self.place}"


class Published(Keyed):
    """A table or a figure of a paper."""

    model_config = ConfigDict(title="the published table")

    about: str = Field(description="What the table shows.")
    paper: Paper = Field(description="The place where the table is printed.")
    claim: str = Field(default="", description="The claim of a figure whose numbers are not printed.")
    metrics: dict[str, str] = Field(
        default={"accuracy": "score"}, description="Printed metrics and their meaning here."
    )
    percent: list[str] = Field(default=[], description="Metrics that are printed in percent.")
    parts: dict[str, Content] = Field(
        description="Data by name: the questions of an experiment, and their worked examples (PAPER/TASK)."
    )
    models: dict[str, list[str]] = Field(description="Models by name: one for all agents, or one for each.")
    gone: dict[str, str] = Field(default={}, description="Models that are no longer available, and why.")
    seeds: list[Seed] = Field(default=[0], description="Each question is asked once under each.")
    settings: Content = Field(default={}, description="Settings for all rows.")
    rows: dict[str, Content] = Field(description="Rows by name, each a scheme with its settings.")
    variants: dict[str, Content] = Field(default={}, description="Settings by name; each row runs once with each.")
    where: list[Content] = Field(default=[], description="Settings of some rows, models or parts.")
    best_of: dict[str, list[str]] = Field(default={}, description="Rows of the table that are the best of several.")
    published: dict[str, dict[str, dict[str, Unimported]]] = Field(
        description="By model, part and row; {} where no number is printed."
    )
    error: Error = Field(description="The kind of error that the paper prints with its figures.")
    overlap: str = Field(description="Rows whose questions the authors also used to choose settings or to train.")
    printed: dict[str, dict[str, float]] = Field(
        default={}, description="Figures of the paper that no row reproduces, such as means over parts."
    )
    plotted: list[str] = Field(default=[], description="Results that the paper draws without numbers.")
    needs: dict[str, str] = Field(default={}, description="Files besides the data, and how to get them.")
    missing: dict[str, str] = Field(default={}, description="Rows and other things that cannot run here, and why.")
    differs: list[str] = Field(default=[], description="Differences from the paper.")
    small: Content = Field(default={}, description="Of a small run: sample, limit, and settings for all rows.")
    against: str | None = Field(default=None, description="The row that others are compared with.")
    _rows: dict[str, tuple[str, Content]] = PrivateAttr(default={})

    @field_validator("models", mode="before")
    @classmethod
    def _as_lists(cls, models: JSONValue) -> JSONValue:
        if not isinstance(models, Mapping):
            return models
        return {name: model if isinstance(model, list) else [model] for name, model in models.items()}

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        self._rows |= {name: (base, row) for name, base, row in _varied(self.rows, self.variants)}
        if not (self.claim or self.published):
            raise UsageError("nothing is published; expected figures in 'published', or a claim in 'claim'")
        selectable: dict[str, Collection[str]] = {
            "rows": {**self.rows, **self._rows},
            "models": self.models,
            "parts": self.parts,
        }
        for selection in (*self.where, *(row[ONLY] for row in self.rows.values() if ONLY in row)):
            for key in SELECTS:
                _check(f"name among {key} in 'where'", _as_list(selection.get(key, [])), selectable[key])
        for rows in self.best_of.values():
            _check("row in best_of", rows, self._rows)
        _check("metric in percent", self.percent, self.metrics)
        _check("model in gone", self.gone, self.models)
        _check("model in published", self.published, self.models)
        for model, parts in self.published.items():
            _check("part in published", parts, self.parts)
            for part in parts:
                figures = self.figures(model, part)
                _check("row in published", figures, {**self._rows, **self.best_of, **self.missing})
                for by in figures.values():
                    _check("metric in published", by, self.metrics)
        return self

    @property
    def every_row(self) -> list[str]:
        """The names of all rows, each with its variants."""
        return [*self._rows]

    def rows_of(self, model: str, part: str) -> dict[str, Content]:
        """Return the rows of one model and one part, each a scheme with its own settings, without the common ones."""
        return {
            name: self._with_settings((name, base), row, model, part)
            for name, (base, row) in self._rows.items()
            if _applies(row.get(ONLY, {}), (name, base), model, part)
        }

    def figures(self, model: str, part: str) -> Figures:
        """Return the printed figures of one model and one part, by row and metric."""
        by_row, first = self.published.get(model, {}).get(part, {}), next(iter(self.metrics))
        return {row: by_metric(figures, first) for row, figures in by_row.items()}

    def experiments(self) -> Iterator[tuple[str, str]]:
        """Yield each model with each part for which it has rows."""
        yield from ((model, part) for model in self.models for part in self.parts if self.rows_of(model, part))

    def _with_settings(self, names: tuple[str, str], row: Content, model: str, part: str) -> Content:
        content = {key: value for key, value in row.items() if key not in (ONLY, VARIED)}
        for line in self.where:
            if _applies(line, names, model, part):
                content |= {key: value for key, value in line.items() if key not in SELECTS}
        return content


def names() -> list[str]:
    """Return the names of all tables, in order."""
    return sorted(path.stem for path in _folder().glob("*.yaml"))


def read_published(name: str) -> Published:
    """Return a table by name.

    Raises:
        UsageError: there is no such table, or its file is wrong.
    """
    if name not in (known := names()):
        raise UsageError(nearest(TABLE, name, known) + "; `experiment reproduce` lists them")
    return read_table(_folder() / f"{name}.yaml")


def read_table(path: Path) -> Published:
    """Return the table in a file.

    Raises:
        UsageError: the file cannot be read, or something in it is wrong.
    """
    content = read_yaml(path, TABLE, "paper: {name: SDE, arxiv: '2506.19209', place: Table 2}")
    try:
        return Published.model_validate(content)
    except UsageError as error:
        raise UsageError(f"{error} ({TABLE} {str(path)!r})") from error


def examples_of(name: str) -> list[str]:
    """Return worked examples by the file of a paper and the task in it, such as "cipher/gsm8k".

    Raises:
        UsageError: there is no such file, or the task is not in it.
    """
    paper, _, task = name.partition("/")
    examples = read_yaml(_folder() / "examples" / f"{paper}.yaml", EXAMPLES, "gsm8k: [QUESTION AND SOLUTION]")
    if task not in examples:
        raise UsageError(nearest(f"task in the {EXAMPLES} of {paper}", task, examples))
    return [str(example) for example in examples[task]]


def _folder() -> Path:
    """Return the folder of tables: installed next to the package's own folders, and linked there in a checkout."""
    return Path(str(files("sottovoce"))) / "experiments" / "published"


def _check(noun: str, names: Iterable[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise UsageError(nearest(noun, name, known))


def _varied(rows: Mapping[str, Content], variants: Mapping[str, Content]) -> Iterator[tuple[str, str, Content]]:
    """Yield each row's name, its name in the file and its content; a row that varies comes once with each variant."""
    for name, row in rows.items():
        if not variants or not row.get(VARIED, True):
            yield name, name, row
            continue
        for variant, more in variants.items():
            yield f"{name}-{variant}", name, {**row, **more}


def _applies(selection: Mapping[str, Any], names: tuple[str, str], model: str, part: str) -> bool:
    """Return whether a selection has this row (by its own name, or its name in the file), model and part."""
    rows = selection.get("rows")
    return (
        (rows is None or bool({*names} & {*_as_list(rows)}))
        and model in _as_list(selection.get("models", model))
        and part in _as_list(selection.get("parts", part))
    )


def _as_list(names: JSONValue) -> list[str]:
    return [*map(str, names)] if isinstance(names, list) else [str(names)]


def save_figures(table: Published, model: str, part: str, folder: Path) -> None:
    """Write the published figures of this model and part into the folder of its experiment.

    Raises:
        RecordError: the file cannot be written.
    """
    figures = table.figures(model, part)
    content = {
        "place": table.paper.words,
        "model": model,
        "part": part,
        "claim": table.claim.strip(),
        "metrics": table.metrics,
        "percent": table.percent,
        "rows": {row: {name: as_json(figure) for name, figure in by.items()} for row, by in figures.items()},
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write(folder / FILE, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise RecordError(f"{str(folder / FILE)!r} cannot be written: {error.strerror}") from error
