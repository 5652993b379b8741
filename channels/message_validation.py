"""Validation of messages written by our nodes, by a person in Studio, or by any client of the server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from sottovoce.channels.message import Message
from sottovoce.core.errors import RequestError, nearest
from sottovoce.core.validation import first_wrong

KNOWN = tuple(field.name for field in fields(Message))
COUNTED = ("epoch", "round", "turn", "attempt")
DIGEST = re.compile("[0-9a-f]{64}")


def written(value: Any) -> Message:  # Any: a message or JSON
    """Return a message from its fields, in the form of `Message.to_dict`.

    Raises:
        RequestError: a field is missing, unknown, or not of its type; a number is negative; a digest is malformed.
    """
    if isinstance(value, Message):
        return value
    if not isinstance(value, Mapping):
        raise RequestError(f"a message for the board is {value!r}; expected its fields, as the state shows them")
    for name in value:
        if name not in KNOWN:
            raise RequestError(nearest("field of a message:", name, KNOWN))
    try:
        message = _adapter().validate_json(to_json(value, inf_nan_mode="constants"), strict=True)
    except ValidationError as error:
        raise RequestError(f"in a message for the board, {first_wrong(error, 'it')}") from error
    except PydanticSerializationError as error:
        raise RequestError(f"a message for the board is not JSON: {error}") from error
    return _in_range(message)


def _in_range(message: Message) -> Message:
    for name in COUNTED:
        if (found := getattr(message, name)) < 0:
            raise RequestError(f"in a message for the board, {name} is {found}; expected 0 or more")
    for ref in (message.payload, message.measured):
        if ref is not None and not all(map(DIGEST.fullmatch, (ref.sha256, ref.text_sha256))):
            raise RequestError("in a message for the board, a payload has no valid digest; leave the payload unchanged")
    return message


@cache  # built on first use, since it takes milliseconds
def _adapter() -> TypeAdapter[Message]:
    return TypeAdapter(Message)
