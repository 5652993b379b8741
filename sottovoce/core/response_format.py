"""Response formats as data: a JSON schema, a set of choices, or a pattern."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from sottovoce.core.any_types import JSON, JSONValue
from sottovoce.core.errors import UsageError

UNKNOWN = "unknown"
"""An extra value that every format allows, so that no agent must invent an answer."""
CLOSED = ("number", "integer", "boolean")
"""JSON types that cannot have this value."""
Schema = Mapping[str, JSONValue]


@dataclass(frozen=True)
class Form:
    """The response format of a reply: exactly one of schema, choices and pattern.

    Acts set it, requests carry it, and the reply is parsed and checked against it.

    Raises:
        UsageError: none or several of the three are set, or no reply can have this format.
    """

    schema: Schema | None = None
    choices: tuple[str, ...] = ()
    """The possible replies."""
    pattern: str | None = None
    """A regular expression that the whole reply must match."""
    after: str = ""
    """The reply is free until a line begins with this, or until it would end: then this is written, a space, and text
    in the format. So a model reasons freely, and only its answer line is constrained."""
    one_line: bool = False
    """Whether the free part ends after its first line."""
    forced: bool = True
    """Whether to write `after` and the format if the reply would end without them. If False, a line is constrained
    only if the model begins it by itself."""
    unknown: bool = True
    """Whether "unknown" is allowed too: as the whole reply, or as the value of a field that is not free text."""
    optional: bool = False
    """Enforced only if a run asks for it (`--guide on`): models write a number without constrained decoding."""
    spaced: bool = False
    """Whether a space comes first, as for a reply that continues a prefilled line."""

    def __post_init__(self) -> None:
        """Raise a UsageError for contradictory fields."""
        is_set = {"schema": self.schema is not None, "choices": bool(self.choices), "pattern": self.pattern is not None}
        names = [name for name, is_given in is_set.items() if is_given]
        if len(names) != 1:
            has = " and ".join(names) or "none of them"
            raise UsageError(f"a form has {has}; expected exactly one of schema, choices and pattern")
        if "" in self.choices:
            raise UsageError("a form has an empty choice; expected at least one character in each")
        if self.after != self.after.strip() or "\n" in self.after:
            raise UsageError(f'a form comes after {self.after!r}; expected words of one line, like "Answer:"')
        if (self.one_line or not self.forced) and not self.after:
            raise UsageError(
                'a form is of one_line, or not forced, without after; expected the text before it, like "Answer:"'
            )
        object.__setattr__(self, "choices", tuple(self.choices))  # JSON has a list

    @classmethod
    def of_object(cls, *names: str, **fields: Form | None) -> Form:
        """Return the format of a JSON object with these text fields in this order; `fields` have their own formats.

        Each field allows "unknown" if its own format does; free text may be "unknown" or empty anyway.
        """
        text = {"type": "string"}
        properties = {name: form.field if (form := fields.get(name)) else text for name in names}
        schema = {"type": "object", "properties": properties, "required": list(names), "additionalProperties": False}
        return cls(schema, unknown=False)

    def may_be_empty(self, *names: str) -> Form:
        """Return the format with these text fields of its object allowed to be empty."""
        assert self.schema is not None, "only an object has fields"
        fields = self.schema["properties"]
        return replace(self, schema={**self.schema, "properties": fields | {n: _or_empty(fields[n]) for n in names}})

    @property
    def field(self) -> Schema:
        """The JSON schema of a field with this format; choices and patterns become schemas of text."""
        form = self.offered
        if form.schema is not None:
            return form.schema
        of_text: JSON = {"enum": [*form.choices]} if form.choices else {"pattern": f"^(?:{form.pattern})$"}
        return {"type": "string", **of_text}  # strict schemas of OpenAI need the type

    @property
    def key(self) -> str:
        """A hashable text for the format, since a JSON schema is not hashable.

        Two formats have the same text if they are equal, including the order of fields.
        """
        return json.dumps(asdict(self))

    @property
    def offered(self) -> Form:
        """The format with "unknown" among its values, unless `unknown` is False or it already has that value."""
        if not self.unknown:
            return self
        plain = replace(self, unknown=False)
        if self.schema is not None:
            return replace(plain, schema=_offering(self.schema))
        if self.pattern is not None:
            return replace(plain, pattern=f"(?:{self.pattern})|{UNKNOWN}")
        return replace(plain, choices=_with_unknown(self.choices))


def _with_unknown(values: tuple[JSONValue, ...]) -> tuple[JSONValue, ...]:
    has = any(isinstance(value, str) and value.casefold() == UNKNOWN for value in values)
    return values if has else (*values, UNKNOWN)


def _or_empty(schema: Schema) -> Schema:
    if "enum" in schema:
        return {**schema, "enum": [*schema["enum"], ""]}
    return {**schema, "pattern": f"{schema['pattern'][:-1]}?$"} if "pattern" in schema else schema


def _offering(schema: Schema) -> Schema:
    """Return the schema with "unknown" allowed in each field that is not free text, at any depth."""
    if "enum" in schema:
        values = list(_with_unknown(tuple(schema["enum"])))
        is_text = schema.get("type") == "string"
        return {**{key: value for key, value in schema.items() if key != "type" or is_text}, "enum": values}
    if schema.get("type") in CLOSED or "pattern" in schema:
        return {"anyOf": [schema, {"type": "string", "const": UNKNOWN}]}
    offered = dict(schema)
    if "properties" in schema:
        offered["properties"] = {name: _offering(field) for name, field in schema["properties"].items()}
    if isinstance(schema.get("items"), Mapping):
        offered["items"] = _offering(schema["items"])
    return offered
