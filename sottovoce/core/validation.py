"""Pydantic models for values from outside: a value that does not fit raises a UsageError of one line."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator

from sottovoce.core.errors import UsageError, nearest

BRANCHES = ("json-or-python[", "constrained-", "literal[")
"""The prefixes of pydantic's names for branches of a union (2.14)."""
LONGEST = 200
"""Characters of a value that an error message shows."""


class Checked(BaseModel):
    """Base class of settings and options; invalid values raise our UsageError, also when LangGraph builds them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="wrap")
    @classmethod
    def _in_one_line(cls, values: Any, build: ModelWrapValidatorHandler[Self]) -> Self:  # Any: as they were given
        try:
            return build(values)
        except ValidationError as error:
            first = error.errors()[0]
            if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
                raise UsageError(nearest(f"field of {cls.__name__}:", first["loc"][0], cls.model_fields)) from error
            raise UsageError(first_wrong(error, cls.__name__)) from error


def shown(value: object) -> str:
    """Return the `repr` of a value, cut after `LONGEST` characters."""
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text):,} characters)"


def first_wrong(error: ValidationError, model_name: str) -> str:
    """Return one line about the first value that does not fit; it names `model_name` where no field is at fault."""
    first, *others = error.errors()
    if first["type"] == "missing":  # its input is the whole object
        *within, field = map(str, first["loc"])
        return f"{'.'.join(within) or model_name} has no {field!r}"
    if first["type"] == "union_tag_invalid":  # its message quotes the tag in full
        about = first["ctx"]
        steps = [*map(str, first["loc"]), about["discriminator"].strip("'")]
        return f"{'.'.join(steps)} is {shown(about['tag'])}: expected one of {about['expected_tags']}"
    path: tuple[int | str, ...] = first["loc"]
    in_list = len(path) > 1 and isinstance(path[-1], int) and not isinstance(first["input"], (dict, list))
    where = _place(path[:-1] if in_list else path)  # the message shows which value of the list is wrong
    message = str(first["msg"]).partition(", unable to parse")[0]
    expected = message.removeprefix("Input should be ")
    if expected != message:
        branches = [other["msg"] for other in others if other["loc"] != first["loc"] and _place(other["loc"]) == where]
        message = ", or ".join(["expected " + expected, *(each.removeprefix("Input should be ") for each in branches)])
    return f"{where or model_name} is {shown(first['input'])}: {message}"


def _place(steps: tuple[int | str, ...]) -> str:
    return ".".join(step for step in map(str, steps) if not step.startswith(BRANCHES))
