"""The format of an experiment file: rows of settings that are all asked the same questions.

    about: Does a second agent help?
    questions: {sample: split/7, limit: 100}       # or {file: FILE, where: [level<3], limit: 100}, or
                                                   # {dataset: gsm8k, file: FILE} (or hub: ID@COMMIT), or a
                                                   # list of these, pooled
    seeds: [0, 1]
    settings: {model: bundled, rounds: 2}          # for all rows: each takes those that its scheme has
    rows:
      alone: {scheme: single, temperature: 0}
      words: {scheme: debate}
      costs-the-same: {scheme: self-consistency, matched: {row: words, by: flops}}
      deaf: {scheme: debate, control: empty}
    against: alone                                 # compare with this row only; else compare all pairs

Nothing here imports torch or langgraph.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator

from sottovoce.core.bounds import Count, Seed
from sottovoce.core.errors import UsageError, nearest
from sottovoce.core.validation import Checked
from sottovoce.graphs import SCHEMES, scheme
from sottovoce.prompts.kinds import KindName
from sottovoce.runs.budget import Currency
from sottovoce.settings import Settings
from sottovoce.settings.plain import UnknownName, named

NAME = re.compile(r"[\w-][\w.-]*")
"""A row's name, which is also the name of its folder."""
Given = dict[str, Any]  # Any: parsed YAML
OF_ROWS = ("scheme", "documents", "matched")
"""Keys of a row that are not settings."""
Kept = Literal["all"] | list[int]
"""The documents that an agent keeps: all that it was dealt, or some by number, from 1."""


class Keyed(Checked):
    """A mapping in a file; the error for an unknown key names the nearest known one."""

    @model_validator(mode="before")
    @classmethod
    def _known(cls, given: Any) -> Any:  # Any: parsed YAML
        if not isinstance(given, Mapping):
            raise UsageError(f"{cls._called()} is {given!r}; expected keys: {', '.join(cls.model_fields)}")
        for name in given:
            if name not in cls.model_fields:
                raise UsageError(nearest(f"key of {cls._called()}", name, cls.model_fields))
        return given

    @classmethod
    def _called(cls) -> str:
        return cls.model_config.get("title") or cls.__name__


class Asked(Keyed):
    """The questions of all rows; the keys correspond to options of the command line."""

    model_config = ConfigDict(title="questions")

    sample: str | None = Field(default=None, description="As --sample; documents are dealt to each row's own agents.")
    file: Path | None = Field(default=None, description="As --questions.")
    dataset: str | None = Field(default=None, description="The data set of the file: NAME or NAME/PART.")
    hub: str | None = Field(default=None, description="Where the data set is on the hub, instead of a file: ID@COMMIT.")
    where: list[str] = Field(default=[], description="Which rows of the file to take, as --where.")
    limit: Count | None = Field(default=None, ge=1, description="Maximum number of questions, as --limit.")
    shuffle: Seed | None = Field(default=None, description="Seed for shuffling the file's rows, as --shuffle.")
    skip: Count = Field(default=0, ge=0, description="Number of rows to skip at the start of the file, as --skip.")
    kind: KindName | None = Field(default=None, description="The kind of rows that name none, as --kind.")
    task_description: str | None = Field(default=None, description="As --task-description.")
    task_answer: str | None = Field(default=None, description="As --task-answer.")
    task_demonstration: list[str] = Field(default=[], description="As --task-demonstration, any number of them.")

    @field_validator("where", mode="before")
    @classmethod
    def _listed(cls, given: Any) -> Any:  # Any: parsed YAML
        return [given] if isinstance(given, str) else given

    @model_validator(mode="after")
    def _of_one_source(self) -> Self:
        if [self.sample, self.file, self.hub].count(None) != 2:
            raise UsageError("questions come from one source; give exactly one of the keys 'sample', 'file' and 'hub'")
        if self.dataset is not None and self.sample is not None:
            raise UsageError("'dataset' names the data set of a file, and a sample was given; drop one of them")
        if self.hub is not None and self.dataset is None:
            raise UsageError("'hub' says where a data set is; name the data set with 'dataset', such as gsm8k")
        return self

    @property
    def said(self) -> str | None:
        """The value that --questions would have; None for a sample."""
        return f"{self.dataset}:{self.file or self.hub}" if self.dataset else str(self.file) if self.file else None


class Matched(Keyed):
    """The row whose cost per discussion determines the number of self-consistency's samples."""

    model_config = ConfigDict(title="matched")

    row: str = Field(description="An earlier row.")
    by: Currency = Field(default="flops", description="flops, or tokens (read and not reused, plus written).")


class Row(Checked):
    """One row of the table, with a run of its own."""

    scheme: str
    documents: dict[str, Kept] = Field(
        default={},
        description="Documents that agents keep of those they were dealt; an agent that is not named keeps none.",
    )
    matched: Matched | None = None
    settings: Settings


class Experiment(Keyed):
    """An experiment: rows of settings, and one set of questions."""

    model_config = ConfigDict(title="the experiment", arbitrary_types_allowed=True)

    about: str = Field(default="", description="What the experiment is for.")
    questions: list[Asked] = Field(description="One source, or several whose questions are pooled in their order.")
    seeds: list[Seed] = Field(default=[0], description="Each question is asked once under each.")
    settings: Given = Field(default={}, description="Settings for all rows; each takes those that its scheme has.")
    rows: dict[str, Row] = Field(description="Rows by name, each a scheme with its settings.")
    against: str | None = Field(default=None, description="The row that others are compared with; else all pairs.")

    @model_validator(mode="before")
    @classmethod
    def _rows(cls, given: Any) -> Any:  # Any: parsed YAML
        """Combine each row's settings with those for all rows; `_known` has not run yet."""
        if not isinstance(given, Mapping) or not isinstance(given.get("rows"), Mapping):
            return given
        common: Any = given.get("settings") or {}  # Any: parsed YAML
        if not isinstance(common, Mapping):
            raise UsageError(f"settings are {common!r}; expected lines like 'rounds: 2'")
        common = dict(common)
        made = {str(name): _row(str(name), row, common) for name, row in given["rows"].items()}
        _check_common(common, [row["scheme"] for row in made.values()])
        return {**given, "rows": made}

    @field_validator("seeds", "questions", mode="before")
    @classmethod
    def _listed(cls, given: Any) -> Any:  # Any: parsed YAML
        return given if isinstance(given, list) else [given]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if not self.questions:
            raise UsageError("there are no questions; expected a sample, a file, or a list of these")
        if not self.rows or not self.seeds:
            raise UsageError(f"there are no {'seeds' if self.rows else 'rows'}; expected at least one")
        if len({*self.seeds}) < len(self.seeds):
            raise UsageError(f"seeds are {', '.join(map(str, self.seeds))}; give each once")
        if self.against is not None and self.against not in self.rows:
            raise UsageError(nearest("row in 'against'", self.against, self.rows))
        before = list[str]()
        for name, row in self.rows.items():
            if row.matched is not None and row.matched.row not in before:
                raise UsageError(_too_early(name, row.matched.row, self.rows))
            before.append(name)
        for name, row in self.rows.items():
            _check_donor(name, row, self.rows)
        return self

    def chosen(self, names: list[str]) -> list[str]:
        """Return those of the rows that are in `names`, in the order of the file; all if `names` is empty.

        Raises:
            UsageError: a row does not exist.
        """
        for name in names:
            if name not in self.rows:
                raise UsageError(nearest("row", name, self.rows))
        return [name for name in self.rows if name in names or not names]


def _check_donor(name: str, row: Row, rows: Mapping[str, Row]) -> None:
    """Check that a probe comes from an earlier row of the same scheme and protocol, whose run is in the same folder."""
    donor, kind = row.settings.probe_from, (row.scheme, row.settings.protocol)
    earlier = list(takewhile(lambda each: each != name, rows))
    like = [each for each in earlier if (rows[each].scheme, rows[each].settings.protocol) == kind]
    if donor and donor not in like:
        raise UsageError(
            f"row {name!r}: probe_from is {donor!r}; expected an earlier row of {' and '.join(kind)}: "
            f"{', '.join(like) or 'there is none'}"
        )


def _row(name: str, given: Any, common: Mapping[str, Any]) -> Given:  # Any: parsed YAML
    try:
        if not NAME.fullmatch(name):
            raise UsageError("the name becomes a folder's; expected only letters, digits, '-', '_' and '.'")
        if not isinstance(given, Mapping) or "scheme" not in given:
            raise UsageError(f"it is {given!r}; expected a scheme with settings, such as {{scheme: debate, rounds: 2}}")
        own = {key: value for key, value in given.items() if key not in OF_ROWS}
        found = str(given["scheme"]).replace("-", "_")
        if found not in SCHEMES:
            raise UsageError(nearest("scheme", given["scheme"], SCHEMES))
        kind = scheme(found).settings
        shared = {key: value for key, value in common.items() if _plain(key) in kind.model_fields}
        settings = kind.model_validate({**named(shared, kind.model_fields), **_named(own, kind)})
        if given.get("matched") is not None:
            _check_matched(found, own)
        return {"scheme": found, "settings": settings, **{name: given[name] for name in OF_ROWS[1:] if name in given}}
    except UsageError as error:
        raise UsageError(f"row {name!r}: {error}") from error


def _check_matched(found: str, own: Mapping[str, Any]) -> None:
    if found != "self_consistency":
        raise UsageError(f"{found} cannot be matched; write {{scheme: self-consistency, matched: {{row: NAME}}}}")
    if "samples" in own:
        raise UsageError("samples follow from the row that it is matched to; drop one of the two")


def _too_early(name: str, wanted: str, rows: Mapping[str, Row]) -> str:
    if wanted not in rows:
        return nearest(f"row in 'matched' of {name!r}", wanted, rows)
    return f"row {name!r} is matched to {wanted!r}, which is not before it; rows run in the order of the file"


def _named(own: Given, kind: type[Settings]) -> Given:
    """Return a row's own settings; an unknown name may also be a misspelled key of the row."""
    if "seed" in map(_plain, own):
        raise UsageError("a row has no seed of its own; give the experiment 'seeds'")
    try:
        return named(own, kind.model_fields)
    except UnknownName:
        known = [*kind.model_fields, *OF_ROWS[1:]]
        wrong = next(_plain(name) for name in own if _plain(name) not in kind.model_fields)
        raise UnknownName(nearest("setting", wrong, known)) from None


def _check_common(common: Mapping[str, Any], names: list[str]) -> None:
    known = {field for name in names for field in scheme(name).settings.model_fields}
    for name in map(_plain, common):
        if name == "seed":
            raise UsageError("settings have a seed; give the experiment 'seeds'")
        if name not in known:
            raise UsageError(nearest("setting of all rows", name, known))


def _plain(name: object) -> str:
    return str(name).replace("-", "_")
