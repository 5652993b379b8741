"""The form that a reply must have, as data: a JSON schema, one of some choices, or a pattern."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from sottovoce.errors import UsageError

UNKNOWN = "unknown"
"""What every form offers besides, so that nobody must invent an answer."""
CLOSED = ("number", "integer", "boolean")
"""Types of JSON that cannot hold it."""
Schema = Mapping[str, Any]  # Any: a JSON schema's own


@dataclass(frozen=True)
class Form:
    """Exactly one of three; acts say it, requests carry it, and who reads a reply holds it against it.

    Raises:
        UsageError: none was given, or several; or one that nothing can be written in.
    """

    schema: Schema | None = None
    choices: tuple[str, ...] = ()
    """The reply is one of these."""
    pattern: str | None = None
    """A regular expression that the whole reply matches."""
    after: str = ""
    """The reply is free until a line begins with this, or until it would end: then this is written, a space, and the
    form. So a model reasons as it likes, and its answer's own line is guided."""
    one_line: bool = False
    """What is free ends with its first line."""
    forced: bool = True
    """Write `after` and the form where the reply would end without them. False keeps a line to its form only where
    the model begins it by itself."""
    unknown: bool = True
    """Whether "unknown" is offered too: in the reply's place, or in that of a field that is no free text."""
    optional: bool = False
    """Kept to only where a run asks for it (`--guide on`): models write a number without being held to it."""
    spaced: bool = False
    """A space comes first, as where the reply goes on in a line that was begun for it."""

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        given = {"schema": self.schema is not None, "choices": bool(self.choices), "pattern": self.pattern is not None}
        found = [name for name, is_given in given.items() if is_given]
        if len(found) != 1:
            has = " and ".join(found) or "none of them"
            raise UsageError(f"a form has {has}; expected exactly one of schema, choices and pattern")
        if "" in self.choices:
            raise UsageError("a form has an empty choice; expected at least one character in each")
        if self.after != self.after.strip() or "\n" in self.after:
            raise UsageError(f'a form comes after {self.after!r}; expected words of one line, like "Answer:"')
        if self.one_line and not self.after:
            raise UsageError('a form has one_line without after; expected what it comes after, like "Answer:"')
        if not self.forced and not self.after:
            raise UsageError('a form is not forced and has no after; expected what begins its line, like "Answer:"')
        object.__setattr__(self, "choices", tuple(self.choices))  # a list where it came as JSON

    @classmethod
    def of_object(cls, *names: str, **fields: Form | None) -> Form:
        """A JSON object of texts with these names, in this order; a field that has a form of its own is in that.

        Each field offers "unknown" as its own form says, and a free text may say it anyway.
        """
        text = {"type": "string"}
        found = {name: form.field if (form := fields.get(name)) else text for name in names}
        schema = {"type": "object", "properties": found, "required": list(names), "additionalProperties": False}
        return cls(schema, unknown=False)

    @property
    def field(self) -> Schema:
        """The schema of a field that is in this form, as a text where it is no schema itself."""
        form = self.offered
        if form.schema is not None:
            return form.schema
        return {"enum": [*form.choices]} if form.choices else {"type": "string", "pattern": f"^(?:{form.pattern})$"}

    @property
    def key(self) -> str:
        """The same for equal forms, the order of fields included: a JSON schema cannot be hashed."""
        return json.dumps(asdict(self))

    @property
    def offered(self) -> Form:
        """The form with "unknown" among what it allows, unless it wants none or has it already."""
        if not self.unknown:
            return self
        plain = replace(self, unknown=False)
        if self.schema is not None:
            return replace(plain, schema=_offering(self.schema))
        if self.pattern is not None:
            return replace(plain, pattern=f"(?:{self.pattern})|{UNKNOWN}")
        return replace(plain, choices=_with_unknown(self.choices))


def _with_unknown(values: tuple[Any, ...]) -> tuple[Any, ...]:  # Any: JSON's own
    has = any(isinstance(value, str) and value.casefold() == UNKNOWN for value in values)
    return values if has else (*values, UNKNOWN)


def _offering(schema: Schema) -> Schema:
    """A schema whose fields that are no free texts take "unknown" too, at any depth."""
    if "enum" in schema:
        return {**_without(schema, "type"), "enum": list(_with_unknown(tuple(schema["enum"])))}
    if schema.get("type") in CLOSED or "pattern" in schema:
        return {"anyOf": [schema, {"const": UNKNOWN}]}
    found = dict(schema)
    if "properties" in schema:
        found["properties"] = {name: _offering(field) for name, field in schema["properties"].items()}
    if isinstance(schema.get("items"), Mapping):
        found["items"] = _offering(schema["items"])
    return found


def _without(schema: Schema, name: str) -> dict[str, Any]:  # Any: JSON's own
    return {key: value for key, value in schema.items() if key != name}
