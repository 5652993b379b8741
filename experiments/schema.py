"""The format of an experiment file: rows of settings that are all asked the same questions, once or at several points.

docs/howto/experiments.md has an example and all keys. The tables and figures of papers are in `experiments/published`;
these files also have the printed figures and notes (docs/howto/reproduce.md).

Nothing here imports torch or langgraph.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from statistics import fmean
from typing import Annotated, Literal, Self

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from sottovoce.core.any_types import JSON, JSONValue
from sottovoce.core.bounds import Count, Seed
from sottovoce.core.errors import UsageError, nearest
from sottovoce.core.validation import Checked
from sottovoce.datasets.fields import columns_of
from sottovoce.experiments.row_content import Content, choose, expanded, run_name
from sottovoce.nodes.settings import Settings
from sottovoce.prompts.kinds import KindName
from sottovoce.runs.limits import Currency

NUMBERED = re.compile(r"([A-Za-z_]+)(\d*)")
"""A point's name with a number, by which points with the same letters are drawn."""
ONE_OR_MORE = BeforeValidator(lambda value: value if isinstance(value, list) else [value])
"""A list, or a single value that stands for a list of one."""
Selection = Literal["all"] | list[int]
"""The documents that an agent keeps: all that it was dealt, or some by number, from 1."""


class Keyed(Checked):
    """A mapping in a file; the error for an unknown key names the nearest known one."""

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, content: JSONValue) -> JSONValue:
        title = cls.model_config.get("title") or cls.__name__
        if not isinstance(content, Mapping):
            raise UsageError(f"{title} is {content!r}; expected keys: {', '.join(cls.model_fields)}")
        for name in content:
            if name not in cls.model_fields:
                raise UsageError(nearest(f"key of {title}", name, cls.model_fields))
        return content


class Source(Keyed):
    """A source of the questions of all rows; the keys correspond to options of the command line."""

    model_config = ConfigDict(title="questions")

    sample: str | None = Field(default=None, description="As --sample; documents are dealt to each row's own agents.")
    file: Path | None = Field(default=None, description="As --questions.")
    dataset: str | None = Field(default=None, description="The data set of the file: NAME or NAME/PART.")
    hub: str | None = Field(default=None, description="Where the data set is on the hub, instead of a file: ID@COMMIT.")
    column: Annotated[dict[str, str], BeforeValidator(columns_of)] = Field(
        default={}, description="Columns of the file by field, as --column: {question: prompt, target: gold}."
    )
    where: Annotated[list[str], ONE_OR_MORE] = Field(default=[], description="Rows of the file to use, as --where.")
    limit: Count | None = Field(default=None, ge=1, description="Maximum number of questions, as --limit.")
    shuffle: Seed | None = Field(default=None, description="Seed for shuffling the file's rows with Python's random.")
    printed: Count | None = Field(default=None, description="The file's own limit, if --limit replaced it.")
    skip: Count = Field(default=0, ge=0, description="Number of rows to skip at the start of the file, as --skip.")
    kind: KindName | None = Field(default=None, description="Kind of answer for rows that name none, as --kind.")
    task_description: str | None = Field(default=None, description="The task, shown before the question.")
    task_answer: str | None = Field(default=None, description="Request for an answer, instead of the kind's.")
    task_demonstration: list[str] = Field(default=[], description="Worked examples, as one text each.")

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if [self.sample, self.file, self.hub].count(None) != 2:
            raise UsageError("questions come from one source; give exactly one of the keys 'sample', 'file' and 'hub'")
        if self.dataset is not None and self.sample is not None:
            raise UsageError("'dataset' names the data set of a file, and a sample was given; drop one of them")
        if self.hub is not None and self.dataset is None:
            raise UsageError("'hub' says where a data set is; name the data set with 'dataset', such as gsm8k")
        return self

    @property
    def option(self) -> str | None:
        """The value of --questions for this source; None for a sample."""
        return f"{self.dataset}:{self.file or self.hub}" if self.dataset else str(self.file) if self.file else None


class Matched(Keyed):
    """The row whose cost per discussion determines the number of self-consistency's samples."""

    model_config = ConfigDict(title="matched")

    row: str = Field(description="Name of the earlier row whose cost is matched.")
    by: Currency = Field(default="flops", description="flops, or tokens (read and not reused, plus written).")


class Point(Keyed):
    """Questions that each row is asked in a separate run, and settings of these runs."""

    model_config = ConfigDict(title="a point")

    questions: Annotated[list[Source], ONE_OR_MORE] = Field(
        description="One source, or several whose questions are pooled in their order."
    )
    settings: Content = Field(default={}, description="Settings of all rows at this point.")


Error = Literal["none", "not said", "standard error", "95 % interval"]
"""The meaning of `spread` in {mean: 60.0, spread: 2.3}."""


class Figure(Checked):
    """A figure as a paper prints it: 0.61, a list with one number a run, or {mean: 60.0, spread: 2.3}."""

    runs: list[float] = Field(min_length=1)
    spread: float | None = None

    @property
    def mean(self) -> float:
        """The figure, or the mean over all runs."""
        return fmean(self.runs)

    @property
    def words(self) -> str:
        """The figure as printed: "60 ± 2.3", "57.8, 62.8"."""
        return ", ".join(f"{run:g}" for run in self.runs) + ("" if self.spread is None else f" ± {self.spread:g}")


class Published(Keyed):
    """The figures that a paper prints for the rows of an experiment."""

    model_config = ConfigDict(title="'published'")

    paper: str = Field(description="The place where they are printed.")
    metrics: dict[str, str] = Field(
        default={"accuracy": "score"}, description="Printed metrics and their meaning here."
    )
    percent: list[str] = Field(default=[], description="Metrics that are printed in percent.")
    error: Error = Field(default="none", description="The kind of error that the paper prints with its figures.")
    best_of: dict[str, list[str]] = Field(default={}, description="Rows of the table that are the best of several.")
    missing: dict[str, str] = Field(default={}, description="Rows that cannot run here, and why.")
    figures: dict[str, dict[str, dict[str, Figure]]] = Field(
        default={}, description="Printed figures by point, row and metric; without a metric they are of the first one."
    )

    @field_validator("figures", mode="before")
    @classmethod
    def _read(cls, figures: JSONValue, info: ValidationInfo) -> JSONValue:
        first = next(iter(info.data.get("metrics", {})), "")
        try:
            return {
                str(point): {str(row): _by_metric(value, first) for row, value in rows.items()}
                for point, rows in figures.items()
            }
        except AttributeError as error:
            raise UsageError(f"figures are {figures!r}; expected lines like 'facts1: {{words: 0.61}}'") from error


def _by_metric(value: JSONValue, first: str) -> dict[str, JSON]:
    figures = value if isinstance(value, Mapping) and "mean" not in value else {first: value}
    return {str(name): _figure(figure) for name, figure in figures.items()}


def _figure(value: JSONValue) -> JSON:
    mean, spread = (value.get("mean"), value.get("spread")) if isinstance(value, Mapping) else (value, None)
    return {"runs": mean if isinstance(mean, list) else [mean], "spread": spread}


class FileRow(Checked):
    """One row of the file at one point; each has its own run."""

    scheme: str
    name: str
    """The row's name in the file."""
    point: str = ""
    """Empty if the experiment has no points."""
    documents: dict[str, Selection] = Field(
        default={},
        description="Documents that agents keep of those they were dealt; an agent that is not named keeps none.",
    )
    matched: Matched | None = None
    settings: Settings


class Experiment(Keyed):
    """An experiment: rows of settings, and one set of questions, or one for each point."""

    model_config = ConfigDict(title="the experiment", arbitrary_types_allowed=True)

    about: str = Field(default="", description="What the experiment is for.")
    file: str | None = Field(default=None, description="The file that it was read from, also as saved in its folder.")
    questions: Annotated[list[Source], ONE_OR_MORE] = Field(
        default=[], description="One source, or several whose questions are pooled in their order."
    )
    points: dict[str, Point] = Field(default={}, description="Instead of questions: points by name, such as facts4.")
    seeds: Annotated[list[Seed], ONE_OR_MORE] = Field(
        default=[0], description="Seeds; each question is asked once under each seed."
    )
    settings: Content = Field(default={}, description="Settings for all rows; each takes those that its scheme has.")
    rows: dict[str, FileRow] = Field(description="Rows by name, each a scheme with its settings.")
    where: list[Content] = Field(default=[], description="Settings of some rows at some points.")
    against: str | None = Field(default=None, description="The row that others are compared with; else all pairs.")
    published: Published | None = Field(default=None, description="What a paper prints for these rows.")
    notes: JSON = Field(default={}, description="Remarks by name: a text, a list, or texts by name.")
    floor: str | None = Field(
        default=None, description="The baseline row, in which messages carry nothing, at each point."
    )
    _content: Content = PrivateAttr(default={})

    @model_validator(mode="wrap")
    @classmethod
    def _merge_settings(cls, content: JSONValue, validate: ModelWrapValidatorHandler[Self]) -> Self:
        """Combine each row's settings with those for all rows; `_check_keys` has not run yet."""
        has_rows = isinstance(content, Mapping) and isinstance(content.get("rows"), Mapping)
        experiment = validate(expanded({**content}) if has_rows else content)
        experiment._content = dict(content)
        return experiment

    @property
    def content(self) -> Content:
        """The content of the file, as read."""
        return self._content

    @model_validator(mode="after")
    def _check_rows(self) -> Self:
        if bool(self.questions) == bool(self.points):
            found = "there are both questions and points" if self.points else "there are no questions"
            raise UsageError(f"{found}; expected a sample, a file, a list of these, or points with such questions")
        if not self.rows or not self.seeds:
            raise UsageError(f"there are no {'seeds' if self.rows else 'rows'}; expected at least one")
        if len({*self.seeds}) < len(self.seeds):
            raise UsageError(f"seeds are {', '.join(map(str, self.seeds))}; give each once")
        names = dict.fromkeys(row.name for row in self.rows.values())
        for key, name in (("against", self.against), ("floor", self.floor)):
            if name is not None and name not in names:
                raise UsageError(nearest(f"row in {key!r}", name, names))
        if self.floor is not None and not self.points:
            raise UsageError("'floor' is compared at each point, but the experiment has no points; drop it")
        if (published := self.published) is not None:
            choose("point in 'figures'", [*published.figures], self.points)
            choose("row in 'best_of'", [row for best in published.best_of.values() for row in best], names)
            choose("metric in 'percent'", published.percent, published.metrics)
            for by_row in published.figures.values():
                choose("row in 'figures'", [*by_row], [*names, *published.best_of, *published.missing])
                choose("metric in 'figures'", [metric for by in by_row.values() for metric in by], published.metrics)
        earlier = dict[str, FileRow]()
        for name, row in self.rows.items():
            if (target := row.matched.row if row.matched else name) not in self.rows:
                raise UsageError(nearest(f"row in 'matched' of {name!r}", target, self.rows))
            if row.matched and target not in earlier:
                raise UsageError(
                    f"row {name!r} is matched to {target!r}, which is not before it; rows run in the order of the file"
                )
            _check_donor(name, row, earlier)
            earlier[name] = row
        return self

    def sources(self, name: str) -> list[Source]:
        """Return the sources of the questions of a run."""
        point = self.rows[name].point
        return self.points[point].questions if point else self.questions

    @property
    def baselines(self) -> str | Mapping[str, str] | None:
        """The row that others are compared with; with points, for each run the one that it is compared with."""
        if not self.points:
            return self.against
        if self.against is None:
            return {}  # rows at different points answer different questions
        return {name: run_name(self.against, row.point) for name, row in self.rows.items() if row.name != self.against}

    def runs_of(self, names: Collection[str]) -> list[str]:
        """Return the runs of these rows, which may be named with their point, in the file's order; all if empty."""
        known = dict.fromkeys([*(row.name for row in self.rows.values()), *self.rows])
        chosen = choose("row", names, [*known])
        return [name for name, row in self.rows.items() if name in chosen or row.name in chosen]

    @property
    def axis(self) -> tuple[str, dict[str, int]]:
        """The noun that the points count, and each number; ("", {}) unless all are like facts4, with one noun."""
        parts = {label: match.groups() for label in self.points if (match := NUMBERED.fullmatch(label))}
        nouns = {noun for noun, _ in parts.values()}
        if len(nouns) != 1 or not all(number for _, number in parts.values()):
            return "", {}
        return nouns.pop(), {label: int(number) for label, (_, number) in parts.items()}


def _check_donor(name: str, row: FileRow, earlier: Mapping[str, FileRow]) -> None:
    """Check that a probe refers to an earlier row with the same scheme and protocol; its run is in the same folder."""
    donor, kind = row.settings.probe_from, (row.scheme, row.settings.protocol)
    possible = [name for name, row in earlier.items() if (row.scheme, row.settings.protocol) == kind]
    if donor and donor not in possible:
        raise UsageError(
            f"row {name!r}: probe_from is {donor!r}; expected an earlier row of {' and '.join(kind)}: "
            f"{', '.join(possible) or 'there is none'}"
        )
