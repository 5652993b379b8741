"""Sizes as people write them: 4GB, 500 MB, 4GiB, or a number of bytes; pydantic's ByteSize parses them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, ByteSize, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from sottovoce.core.bounds import MOST
from sottovoce.core.errors import UsageError

_BYTES = TypeAdapter(ByteSize)


def read_size(written: Any) -> Any:  # Any: pydantic checks what is not text
    """Return the bytes of a size written as text; anything else unchanged.

    Raises:
        PydanticCustomError: the text is not a size; pydantic adds the field's name.
    """
    if not isinstance(written, str):
        return written
    try:
        return int(_BYTES.validate_python(written.lower().removesuffix("ytes")))  # "bytes" is "b" there
    except ValidationError as error:
        raise PydanticCustomError("size", "expected bytes, or a size like '4GB' or '500MB'") from error


Size = Annotated[int, Field(gt=0, le=MOST), BeforeValidator(read_size, json_schema_input_type=int | str)]
"""A positive number of bytes, which may be written as a size."""


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


def amount(nbytes: float) -> str:
    """Return a number of bytes as text with a unit, to three digits."""
    for unit in ("bytes", "kB", "MB"):
        if nbytes < 999.5:
            return f"{nbytes:.3g} {unit}"
        nbytes /= 1000
    return f"{nbytes:.3g} GB" if nbytes < 999.5 else f"{nbytes:,.0f} GB"
