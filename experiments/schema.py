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
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import ConfigDict, Field, ModelWrapValidatorHandler, PrivateAttr, field_validator, model_validator

from sottovoce.core.bounds import Count, Seed
from sottovoce.core.errors import UsageError, nearest
from sottovoce.core.validation import Checked
from sottovoce.graphs import SCHEMES, scheme
from sottovoce.prompts.kinds import KindName
from sottovoce.runs.limits import Currency
from sottovoce.settings import Settings
from sottovoce.settings.plain import named

NAME = re.compile(r"[\w-][\w.-]*")
"""A row's name, which is also the name of its folder."""
Content = dict[str, Any]  # Any: parsed YAML
ROW_KEYS = ("scheme", "documents", "matched")
"""Keys of a row that are not settings."""
Selection = Literal["all"] | list[int]
"""The documents that an agent keeps: all that it was dealt, or some by number, from 1."""


class Keyed(Checked):
    """A mapping in a file; the error for an unknown key names the nearest known one."""

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, content: Any) -> Any:  # Any: parsed YAML
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
    def _as_list(cls, where: Any) -> Any:  # Any: parsed YAML
        return [where] if isinstance(where, str) else where

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

    row: str = Field(description="An earlier row.")
    by: Currency = Field(default="flops", description="flops, or tokens (read and not reused, plus written).")


class FileRow(Checked):
    """One row of the file, with a run of its own."""

    scheme: str
    documents: dict[str, Selection] = Field(
        default={},
        description="Documents that agents keep of those they were dealt; an agent that is not named keeps none.",
    )
    matched: Matched | None = None
    settings: Settings


class Experiment(Keyed):
    """An experiment: rows of settings, and one set of questions."""

    model_config = ConfigDict(title="the experiment", arbitrary_types_allowed=True)

    about: str = Field(default="", description="What the experiment is for.")
    questions: list[Source] = Field(description="One source, or several whose questions are pooled in their order.")
    seeds: list[Seed] = Field(default=[0], description="Each question is asked once under each.")
    settings: Content = Field(default={}, description="Settings for all rows; each takes those that its scheme has.")
    rows: dict[str, FileRow] = Field(description="Rows by name, each a scheme with its settings.")
    against: str | None = Field(default=None, description="The row that others are compared with; else all pairs.")
    _content: Content = PrivateAttr(default={})

    @model_validator(mode="before")
    @classmethod
    def _merge_settings(cls, content: Any) -> Any:  # Any: parsed YAML
        """Combine each row's settings with those for all rows; `_check_keys` has not run yet."""
        if not isinstance(content, Mapping) or not isinstance(content.get("rows"), Mapping):
            return content
        common: Any = content.get("settings") or {}  # Any: parsed YAML
        if not isinstance(common, Mapping):
            raise UsageError(f"settings are {common!r}; expected lines like 'rounds: 2'")
        rows = {str(name): _row(str(name), row, common) for name, row in content["rows"].items()}
        known = {field for row in rows.values() for field in scheme(row["scheme"]).settings.model_fields}
        _check_names(common, known, "setting of all rows", "settings have a seed")
        return {**content, "rows": rows}

    @model_validator(mode="wrap")
    @classmethod
    def _keep_content(cls, content: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:  # Any: parsed YAML
        experiment = validate(content)
        experiment._content = dict(content)
        return experiment

    @property
    def content(self) -> Content:
        """The content of the file, as read."""
        return self._content

    @field_validator("seeds", "questions", mode="before")
    @classmethod
    def _as_list(cls, value: Any) -> Any:  # Any: parsed YAML
        return value if isinstance(value, list) else [value]

    @model_validator(mode="after")
    def _check_rows(self) -> Self:
        if not self.questions:
            raise UsageError("there are no questions; expected a sample, a file, or a list of these")
        if not self.rows or not self.seeds:
            raise UsageError(f"there are no {'seeds' if self.rows else 'rows'}; expected at least one")
        if len({*self.seeds}) < len(self.seeds):
            raise UsageError(f"seeds are {', '.join(map(str, self.seeds))}; give each once")
        if self.against is not None and self.against not in self.rows:
            raise UsageError(nearest("row in 'against'", self.against, self.rows))
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


def choose(noun: str, names: Collection[str], known: Collection[str]) -> list[str]:
    """Return those of `known` that are in `names`, in the order of `known`; all if `names` is empty.

    Raises:
        UsageError: a name is unknown.
    """
    for name in names:
        if name not in known:
            raise UsageError(nearest(noun, name, known))
    return [name for name in known if name in names or not names]


def plain(name: object) -> str:
    """Return a setting's name as in Python, with underscores."""
    return str(name).replace("-", "_")


def _check_donor(name: str, row: FileRow, earlier: Mapping[str, FileRow]) -> None:
    """Check that a probe comes from an earlier row of the same scheme and protocol, whose run is in the same folder."""
    donor, kind = row.settings.probe_from, (row.scheme, row.settings.protocol)
    possible = [name for name, row in earlier.items() if (row.scheme, row.settings.protocol) == kind]
    if donor and donor not in possible:
        raise UsageError(
            f"row {name!r}: probe_from is {donor!r}; expected an earlier row of {' and '.join(kind)}: "
            f"{', '.join(possible) or 'there is none'}"
        )


def _row(name: str, content: Any, common: Mapping[str, Any]) -> Content:  # Any: parsed YAML
    try:
        if not NAME.fullmatch(name):
            raise UsageError("the name is used for a folder; expected only letters, digits, '-', '_' and '.'")
        if not isinstance(content, Mapping) or "scheme" not in content:
            raise UsageError(
                f"it is {content!r}; expected a scheme with settings, such as {{scheme: debate, rounds: 2}}"
            )
        scheme_name = plain(content["scheme"])
        if scheme_name not in SCHEMES:
            raise UsageError(nearest("scheme", content["scheme"], SCHEMES))
        kind = scheme(scheme_name).settings
        shared = {plain(key): value for key, value in common.items() if plain(key) in kind.model_fields}
        own = {plain(key): value for key, value in content.items() if key not in ROW_KEYS}
        _check_names(own, [*kind.model_fields, *ROW_KEYS[1:]], "setting", "a row has no seed of its own")
        settings = kind.model_validate(named({**shared, **own}, kind.model_fields))
        others = {key: content[key] for key in ROW_KEYS[1:] if content.get(key) is not None}
        if "matched" in others and scheme_name != "self_consistency":
            raise UsageError(
                f"{scheme_name} cannot be matched; write {{scheme: self-consistency, matched: {{row: NAME}}}}"
            )
        if "matched" in others and "samples" in own:
            raise UsageError("samples follow from the row that it is matched to; drop one of the two")
        return {"scheme": scheme_name, "settings": settings, **others}
    except UsageError as error:
        raise UsageError(f"row {name!r}: {error}") from error


def _check_names(settings: Mapping[str, Any], known: Collection[str], noun: str, seed_error: str) -> None:
    for name in map(plain, settings):
        if name == "seed":
            raise UsageError(f"{seed_error}; give the experiment 'seeds'")
        if name not in known:
            raise UsageError(nearest(noun, name, known))
