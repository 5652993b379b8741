"""Tool calls in a chat template's format: rendered once to find it, requested as JSON and read from replies.

Covers templates with calls in JSON (Qwen, Hermes, Llama, Mistral, Cohere); others use their own markup.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from jinja2 import TemplateError

from sottovoce.core.any_types import JSON, JSONValue
from sottovoce.core.errors import UsageError

NAME, ARGUMENTS, ID, ASKED = "probe_name", {"probe_key": "probe value"}, "probe0123", "What is probed?"
OFFERED = {"type": "function", "function": {"name": "offered", "description": "Offered.", "parameters": {}}}
OTHERS = "bind no tools, or ask for JSON by with_structured_output"


@dataclass(frozen=True)
class CallFormat:
    """A call as the template writes it."""

    preface: str
    """The text between the opened turn and the call, such as `<tool_call>` and a line break."""
    shape: JSONValue
    """The call's JSON for the tool NAME with ARGUMENTS."""

    @property
    def marker(self) -> str:
        """The line of the preface that begins a call within a reply in words; empty without one."""
        return next((line.strip() for line in reversed(self.preface.splitlines()) if line.strip()), "")

    def schema(self, tools: Sequence[JSON]) -> JSON:
        """Return the JSON schema of one call of these tools, in OpenAI's form."""
        functions = [tool["function"] for tool in tools]
        schemas = [_schema(self.shape, each["name"], each.get("parameters") or {}) for each in functions]
        return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}

    def read(self, text: str) -> tuple[str, str, JSON] | None:
        """Return the words before a call, the tool's name and its arguments; None if the text holds no call."""
        before, _, call = text.rpartition(self.marker) if self.marker else ("", "", text)
        try:
            found = dict(_slots(self.shape, json.loads(call)))
        except (ValueError, LookupError, TypeError):
            return None
        name, arguments = found.get("name"), found.get("arguments")
        return (before.strip(), name, arguments) if isinstance(name, str) and isinstance(arguments, dict) else None


def call_format(rendered: Callable[..., str] | None) -> CallFormat:
    """Return how a template writes a tool call; `rendered` writes a chat, None if there is no template.

    Raises:
        UsageError: it does not know tools, or does not write calls as JSON.
    """
    if rendered is None:
        raise UsageError(f"the model has no chat template, so it has no tools; {OTHERS}")
    asked: JSON = {"role": "user", "content": ASKED}
    call = {"id": ID, "type": "function", "function": {"name": NAME, "arguments": ARGUMENTS}}
    result: JSON = {"role": "tool", "name": NAME, "tool_call_id": ID, "content": "ok"}
    said: JSON = {"role": "assistant", "content": "", "tool_calls": [call]}
    # Another question follows, since templates write the last turn in another way, with room for thoughts.
    whole = [asked, said, result, {"role": "assistant", "content": "Done."}, asked]
    try:
        plain, offered = (rendered([asked], True, tools=tools) for tools in (None, [OFFERED]))
        text = rendered(whole, False, tools=[OFFERED]) if plain != offered else ""
    except TemplateError as error:
        raise UsageError(f"the model's chat template cannot write tool calls: {error}; {OTHERS}") from error
    if not text:
        raise UsageError(f"the model's chat template has no tools; {OTHERS}")
    opened, said_text = plain.rpartition(ASKED)[2], text.partition(ASKED)[2]
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(opened, said_text, strict=False))
    said_text = said_text[len([*alike]) :]
    decoder = json.JSONDecoder()
    for at in (at for at, sign in enumerate(said_text) if sign in "[{"):
        try:
            shape = decoder.raw_decode(said_text, at)[0]
        except ValueError:
            continue
        if set(dict(_slots(shape, shape))) == {"name", "arguments"}:
            return CallFormat(said_text[:at], shape)
    raise UsageError(f"the model's chat template does not write tool calls as JSON; {OTHERS}")


def _slots(shape: JSONValue, data: JSONValue) -> Iterator[tuple[str, JSONValue]]:
    """Yield the tool's name and the arguments from a call's JSON, by their places in the shape."""
    if shape == NAME:
        yield "name", data
    elif shape == ARGUMENTS:
        yield "arguments", data
    elif isinstance(shape, Mapping):
        for key, value in shape.items():
            if value != ID:
                yield from _slots(value, data[key])
    elif isinstance(shape, list) and len(shape) == 1:
        yield from _slots(shape[0], data[0])


def _schema(shape: JSONValue, name: str, parameters: JSON) -> JSON:
    if shape == NAME:
        return {"const": name}
    if shape == ARGUMENTS:
        arguments: JSON = closed({"type": "object", "properties": {}, **parameters})
        return arguments
    if isinstance(shape, Mapping):
        fields = {key: _schema(value, name, parameters) for key, value in shape.items() if value != ID}
        return {"type": "object", "properties": fields, "required": [*fields], "additionalProperties": False}
    if isinstance(shape, list):
        return {"type": "array", "items": _schema(shape[0], name, parameters), "minItems": 1, "maxItems": 1}
    return {"const": shape}


def closed(schema: Any) -> Any:  # Any: a JSON schema at any depth
    """Return a JSON schema that allows only the named fields of objects: a model would invent others."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    inner = {key: closed(value) for key, value in schema.items()}
    known = isinstance(schema.get("properties"), Mapping) and "additionalProperties" not in schema
    return inner | ({"additionalProperties": False} if known else {})
