"""The record of a published data set: its questions, where a row has their fields, and how many rows it has."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sottovoce.core.any_types import JSONValue, Unimported
from sottovoce.core.errors import UsageError, nearest
from sottovoce.datasets.table_reader import Values
from sottovoce.prompts.kinds import KindName

SPLITS = {"dev": "validation", "test": "test", "train": "train"}
"""Names on the hub, by published split."""
Fields = dict[str, Unimported]
"""The fields of a question, as a data set's `read` returns them."""


@dataclass(frozen=True)
class Row:
    """A row as it was published; on the hub a column may have another name."""

    values: Values
    part: str = ""
    """The part in the data set's name: "formal_logic" in mmlu/formal_logic."""

    def get(self, *names: str) -> JSONValue:
        """Return the value of the first of these columns that the row has; a UsageError if it has none."""
        for name in names:
            if self.values.get(name) is not None:
                return self.values[name]
        found = ", ".join(map(repr, self.values)) or "no columns"
        raise UsageError(f"found no {' or '.join(map(repr, names))} among {found}")

    def text(self, *names: str) -> str:
        """Return the same, stripped; a UsageError if it is missing, empty, or not a text."""
        found = self.get(*names)
        if isinstance(found, str) and found.strip():
            return found.strip()
        raise UsageError(f"{names[0]} is {found!r}; expected a text")

    def texts(self, *names: str) -> list[str]:
        """Return the same, each item stripped; a UsageError if it is missing, or not a list of texts."""
        found = self.get(*names)
        if isinstance(found, list) and all(isinstance(each, str) for each in found):
            return [each.strip() for each in found]
        raise UsageError(f"{names[0]} is {found!r}; expected a list of texts")


@dataclass(frozen=True)
class Hub:
    """The default config and split of a data set in its repository on the Hugging Face hub."""

    config: str | None = None
    split: str = "test"
    part_is_config: bool = False
    """True if a part names a config there, such as a subject. Otherwise it names a split, if one was published."""


@dataclass(frozen=True)
class DataSet:
    """A published data set; a new one is one object of this class."""

    name: str
    about: str
    """Its questions in a few words."""
    kind: KindName
    row: Mapping[str, JSONValue]
    """An example row for error messages: the published columns, with values of our own."""
    read: Callable[[Row], Fields]
    """Returns the fields of a question, with a `kind` if it differs; raises UsageError for a broken row."""
    counts: Mapping[str, int]
    """Number of published rows, by split or part."""
    metric: str = "accuracy"
    parts: Mapping[str, str] = field(default_factory=dict)
    """Other ways of asking, by part: {"context": "with the paragraphs as documents"}."""
    any_part: bool = False
    """True if any name is accepted as a part: there are many files, and `counts` names only some."""
    private: bool = False
    """True if the documents are dealt in turn to all agents but the last. Otherwise all agents read them."""
    columns: tuple[str, ...] = ()
    """The columns of a CSV file without a header."""
    is_csv: bool = False
    tabs: bool = False
    """True if cells are separated by tabs, and quotes have no meaning."""
    within: str = ""
    """The key of the rows in a file that is one JSON object."""
    own_id: tuple[str, ...] = ()
    """Columns that may contain a row's id; otherwise the id is its 0-based position."""
    metadata: tuple[str, ...] = ()
    """Columns that agents do not see, for filtering rows."""
    aliases_in: str = ""
    """The file in the same folder that contains aliases of answers, by `answer_id`."""
    files: str = ""
    """The files of a folder that have one row each, such as "*/*.json"; the row's `file` is its path, without .json."""
    passes_over: Callable[[Row], bool] = lambda row: False
    """Returns True for a row to skip, which is not a question of this part."""
    hub: Hub = Hub()
    needs: str = ""
    """Requirements of scoring beyond the default installation."""

    @property
    def shape(self) -> str:
        """The expected format of a row, for error messages."""
        if self.columns:
            return f"{len(self.columns)} cells without a header: {', '.join(self.columns)}"
        if self.is_csv:
            return f"CSV with the columns {', '.join(self.row)}"
        return json.dumps(dict(self.row), ensure_ascii=False)

    def on_hub(self, part: str) -> tuple[str | None, str]:
        """Return the config and the split of a part on the hub, where a published "dev" is called "validation"."""
        if self.hub.part_is_config and part and part not in SPLITS:
            return part, self.hub.split
        return self.hub.config, SPLITS.get(part, part) if part in self.counts else self.hub.split

    def check_part(self, part: str) -> None:
        """Raise a UsageError for an unknown part; the message names the most similar one."""
        known = [*self.counts, *self.parts]
        if part and part not in known and not self.any_part:
            raise UsageError(nearest(f"part of {self.name}", part, known))
