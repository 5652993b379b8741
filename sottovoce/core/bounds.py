"""Upper limits of settings, and sizes as people write them: 4GB, 500 MB, 4GiB, or a number of bytes.

Larger numbers are mistakes, and are refused before anything is built from them.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, ByteSize, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from sottovoce.core.any_types import Untyped
from sottovoce.core.errors import UsageError

MOST_AGENTS = 100
"""Each agent is a node of the graph and hears all others: ten thousand edges, a quarter of a second."""
MOST_ROUNDS = 1_000
"""Papers use at most twelve, and agents read every round again in the next."""
MOST_SAMPLES = 1_000
"""Each sample is a node too."""
MOST_TOKENS = 1_000_000
"""No model here has a longer context; a reply that exceeds a model's own context is refused later."""
MOST_STEPS = 100_000
"""Limit on items that each take time or memory: passages, steps, months, trials, questions made from a seed."""
MAX_COUNT = 2**53 - 1
"""Limit on plain counts: JSON, and so Studio's form, is exact for integers up to this one."""

Agents = Annotated[int, Field(le=MOST_AGENTS)]
Rounds = Annotated[int, Field(le=MOST_ROUNDS)]
Samples = Annotated[int, Field(le=MOST_SAMPLES)]
Tokens = Annotated[int, Field(le=MOST_TOKENS)]
Few = Annotated[int, Field(le=MOST_STEPS)]
Count = Annotated[int, Field(le=MAX_COUNT)]
LONGEST_WAIT = 1e9
"""Seconds, about thirty years: the system's clocks and locks accept little more."""
LONGEST_LINE = 16 * 2**20
"""Bytes of a line of data, and characters of a cell; a longer one is refused without reading on."""
LONGEST_PROGRAM = 86_400
"""Seconds that a program written by a model may run: a day."""
Seed = Annotated[int, Field(ge=-MAX_COUNT, le=MAX_COUNT)]

_BYTES = TypeAdapter(ByteSize)


def read_size(text: Untyped) -> Untyped:
    """Return the bytes of a size written as text; anything else unchanged.

    Raises:
        PydanticCustomError: the text is not a size; pydantic adds the field's name.
    """
    if not isinstance(text, str):
        return text
    try:
        return int(_BYTES.validate_python(text.lower().removesuffix("ytes")))  # "bytes" is "b" there
    except ValidationError as error:
        raise PydanticCustomError("size", "expected bytes, or a size like '4GB' or '500MB'") from error


Size = Annotated[int, Field(gt=0, le=MAX_COUNT), BeforeValidator(read_size, json_schema_input_type=int | str)]
"""A positive number of bytes, which may be written as a size."""


def read_thinking(value: Untyped) -> Untyped:
    """Return on and off as booleans, and a number of tokens as an integer; values from JSON and YAML are unchanged.

    Raises:
        PydanticCustomError: it is something else.
    """
    words = {"on": True, "true": True, "off": False, "false": False}
    found = words.get(value.lower(), int(value) if value.isdecimal() else value) if isinstance(value, str) else value
    if isinstance(found, bool) or (isinstance(found, int) and 1 <= found <= MOST_TOKENS):
        return found
    raise PydanticCustomError("thinking", "expected on, off, or the most tokens of thoughts, such as 1024")


Thinking = Annotated[bool | int, BeforeValidator(read_thinking, json_schema_input_type=bool | int)]
"""Whether a model thinks before it replies, or the limit of its thoughts in tokens."""


def size_of(memory: int | str | None) -> int | None:
    """Return the bytes of a memory size that Python code gave; None stays None.

    Raises:
        UsageError: it is not a size above 0.
    """
    if memory is None:
        return None
    try:
        return TypeAdapter(Size).validate_python(memory, strict=None if isinstance(memory, str) else True)
    except ValidationError as error:
        raise UsageError(f"memory is {memory!r}: expected bytes above 0, or a size like '4GB' or '500MB'") from error
