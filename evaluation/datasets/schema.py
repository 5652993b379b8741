"""What a published data set is: where its fields stand, and what was published of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sottovoce.errors import UsageError, nearest
from sottovoce.evaluation.runs.rows import Values
from sottovoce.prompts.kinds import KindName

SPLITS = {"dev": "validation", "test": "test", "train": "train"}
"""Of published ones, what they are called on the hub."""
Fields = dict[str, Any]  # Any: of a Question, without `id` and `kind`


@dataclass(frozen=True)
class Row:
    """A row as it was published; on the hub a column may have another name."""

    values: Values
    part: str = ""
    """Of the data set, as it was named: "formal_logic" in mmlu/formal_logic."""

    def get(self, *names: str) -> Any:  # Any: JSON
        """What stands in the first of these columns that the row has.

        Raises:
            UsageError: it has none of them.
        """
        for name in names:
            if self.values.get(name) is not None:
                return self.values[name]
        found = ", ".join(map(repr, self.values)) or "no columns"
        raise UsageError(f"found no {' or '.join(map(repr, names))} among {found}")

    def text(self, *names: str) -> str:
        """The same, which must be a text that says something.

        Raises:
            UsageError: it is missing, empty, or no text.
        """
        found = self.get(*names)
        if isinstance(found, str) and found.strip():
            return found.strip()
        raise UsageError(f"{names[0]} is {found!r}; expected a text")

    def texts(self, *names: str) -> list[str]:
        """The same, which must be a list of texts.

        Raises:
            UsageError: it is missing, or none.
        """
        found = self.get(*names)
        if isinstance(found, list) and all(isinstance(each, str) for each in found):
            return [each.strip() for each in found]
        raise UsageError(f"{names[0]} is {found!r}; expected a list of texts")


@dataclass(frozen=True)
class Hub:
    """Where a data set lies within its repository on the Hugging Face hub, unless the part says otherwise."""

    config: str | None = None
    split: str = "test"
    part_is_config: bool = False
    """Whether a part names a config there, as a subject; else it names a split where one of that name was published."""


@dataclass(frozen=True)
class DataSet:
    """A published data set; a new one is one object of this class."""

    name: str
    about: str
    """What its questions are, in a few words."""
    kind: KindName
    row: Mapping[str, Any]  # Any: JSON
    """A row as it was published, for who gives another file: our own words, its columns."""
    read: Callable[[Row], Fields]
    """The fields of a question, with a `kind` where it is another one; a UsageError where the row is broken."""
    counts: Mapping[str, int]
    """How many rows were published, by split or part."""
    metric: str = "accuracy"
    parts: Mapping[str, str] = field(default_factory=dict)
    """Other ways of asking by the name of a part: {"context": "with the paragraphs as documents"}."""
    any_part: bool = False
    """Whether a part may be anything: the files are many, and `counts` names some."""
    columns: tuple[str, ...] = ()
    """Of CSV without a row of names: what stands there."""
    is_csv: bool = False
    tabs: bool = False
    """Whether tabs part the cells, and quotes mean nothing."""
    within: str = ""
    """Of a JSON object that holds the rows: under which key."""
    own_id: tuple[str, ...] = ()
    """The columns that may name a row; the place from 0 where none does."""
    kept: tuple[str, ...] = ()
    """Columns that no agent reads, and rows can be chosen by."""
    aliases_in: str = ""
    """The file beside it that has other names of answers, by their `answer_id`."""
    passes_over: Callable[[Row], bool] = lambda row: False
    """Rows that are no question of this part."""
    odd: Callable[[Row], str] = lambda row: ""
    """What is unusual about a row's right answer, in a few words that are counted; empty for most."""
    hub: Hub = Hub()
    needs: str = ""
    """What scoring it needs that is not here."""

    @property
    def shape(self) -> str:
        """What is expected of a row, in words."""
        if self.columns:
            return f"{len(self.columns)} cells without a row of names: {', '.join(self.columns)}"
        if self.is_csv:
            return f"CSV with the names {', '.join(self.row)}"
        return json.dumps(dict(self.row), ensure_ascii=False)

    def on_hub(self, part: str) -> tuple[str | None, str]:
        """The config and the split of a part there, where what was published as dev is called validation."""
        if self.hub.part_is_config and part and part not in SPLITS:
            return part, self.hub.split
        return self.hub.config, SPLITS.get(part, part) if part in self.counts else self.hub.split

    def check_part(self, part: str) -> None:
        """Refuse a part that there is not.

        Raises:
            UsageError: names the nearest that there is.
        """
        known = [*self.counts, *self.parts]
        if part and part not in known and not self.any_part:
            raise UsageError(nearest(f"part of {self.name}", part, known))
