"""Pydantic models for values from outside: a value that does not fit raises a UsageError of one line."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator

from sottovoce.core.errors import UsageError, nearest

BRANCH = "json-or-python["
"""The prefix of pydantic's name for a branch of a union (2.14)."""


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
            raise UsageError(_unknown(error, cls) or first_wrong(error, cls.__name__)) from error


def _unknown(error: ValidationError, model: type[BaseModel]) -> str:
    first = error.errors()[0]
    if first["type"] != "extra_forbidden" or len(first["loc"]) != 1:
        return ""
    return nearest(f"field of {model.__name__}:", first["loc"][0], model.model_fields)


def shown(value: object) -> str:
    """Return the `repr` of a value, cut after `LONGEST` characters."""
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text):,} characters)"


def first_wrong(error: ValidationError, model_name: str) -> str:
    """Return one line about the first value that does not fit; it names `model_name` where no field is at fault."""
    first = error.errors()[0]
    if first["type"] == "missing":  # its input is the whole object
        *within, field = map(str, first["loc"])
        return f"{'.'.join(within) or model_name} has no {field!r}"
    steps = [str(step) for step in first["loc"]]
    if first["type"] == "union_tag_invalid":  # its message quotes the tag in full
        about = first["ctx"]
        steps.append(about["discriminator"].strip("'"))
        return f"{'.'.join(steps)} is {shown(about['tag'])}: expected one of {about['expected_tags']}"
    where = ".".join(step for step in steps if not step.startswith(BRANCH)) or model_name
    message = str(first["msg"])
    expected = message.removeprefix("Input should be ")
    return f"{where} is {shown(first['input'])}: {message if expected == message else 'expected ' + expected}"
