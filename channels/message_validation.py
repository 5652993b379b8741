"""Validation of messages: of their fields before they reach the board, and of their payloads before a model reads them.

Messages come from our nodes, from a person in Studio, or from any client of the server.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from sottovoce.channels.message import Message, MessageRef, Part, Turn
from sottovoce.channels.store import PayloadRef
from sottovoce.core.errors import PayloadError, RequestError, nearest
from sottovoce.core.validation import first_wrong

logger = logging.getLogger(__name__)
KNOWN = tuple(field.name for field in fields(Message))
COUNTED = ("epoch", "round", "turn", "attempt")
DIGEST = re.compile("[0-9a-f]{64}")


def validated(value: Any) -> Message:  # Any: a message or JSON
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
        if (number := getattr(message, name)) < 0:
            raise RequestError(f"in a message for the board, {name} is {number}; expected 0 or more")
    for ref in (message.payload, message.measured):
        if ref is not None and not all(map(DIGEST.fullmatch, (ref.sha256, ref.text_sha256))):
            raise RequestError("in a message for the board, a payload has no valid digest; leave the payload unchanged")
    return message


@cache  # built on first use, since it takes milliseconds
def _adapter() -> TypeAdapter[Message]:
    return TypeAdapter(Message)


def with_readable_payloads(
    turns: Sequence[Turn], load: Callable[[PayloadRef], object], *, in_words: bool
) -> list[Turn]:
    """Return the turns; a message whose payload cannot be loaded is reduced to its words if `in_words` allows that.

    Raises:
        PayloadError: a payload cannot be loaded; names the message, the payload, and the option that allows words.
    """

    def part_of(part: Part) -> Part:
        ref = part.message.latent if isinstance(part, MessageRef) and not part.in_public else None
        if ref is None or isinstance(part, str):
            return part
        try:
            load(ref)
        except PayloadError as error:
            name = f"message of {part.message.agent!r}, round {part.message.round}"
            if not in_words:
                raise PayloadError(f"{name}: {error}; with `--lost words` only its words are read") from error
            logger.warning("%s is read in words: %s", name, error)
            return replace(part, message=replace(part.message, payload=None))
        return part

    return [replace(turn, parts=tuple(map(part_of, turn.parts))) for turn in turns]
