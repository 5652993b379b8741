"""Sizes as a person writes them, in powers of 1000: 4GB, 500 MB, or a number of bytes."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from sottovoce.errors import UsageError

UNITS = {"": 1, "b": 1, "bytes": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
WRITTEN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)


def read_size(written: Any) -> Any:  # Any: what is no text is pydantic's to read
    """The bytes of a size in words; anything but a text as it is.

    Raises:
        PydanticCustomError: a text that is no size; pydantic names the field it was given for.
    """
    if not isinstance(written, str):
        return written
    found = WRITTEN.fullmatch(written)
    unit = found and UNITS.get(found[2].lower())
    if not found or not unit:
        raise PydanticCustomError("size", "expected bytes, or a size like '4GB' or '500MB'")
    return round(float(found[1]) * unit)


Size = Annotated[int, Field(gt=0), BeforeValidator(read_size, json_schema_input_type=int | str)]
"""A field of bytes, above 0, that may be written as a size."""


def size_of(memory: int | str | None) -> int | None:
    """The bytes of a memory that was given from Python; None stays None.

    Raises:
        UsageError: no size above 0.
    """
    if memory is None:
        return None
    try:
        return TypeAdapter(Size).validate_python(memory, strict=None if isinstance(memory, str) else True)
    except ValidationError as error:
        raise UsageError(f"memory is {memory!r}: expected bytes above 0, or a size like '4GB' or '500MB'") from error
