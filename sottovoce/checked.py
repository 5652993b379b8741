"""Values that come from outside, held to a pydantic model: what does not fit is a UsageError of one line."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator

from sottovoce.errors import UsageError, nearest

BRANCH = "json-or-python["
"""How pydantic's own name for a branch of a union begins (2.14)."""


LONGEST = 200
"""Characters of a value in a complaint."""


class Checked(BaseModel):
    """Base of settings and options; whoever makes them, LangGraph too, the complaint is ours."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="wrap")
    @classmethod
    def _in_one_line(cls, values: Any, build: ModelWrapValidatorHandler[Self]) -> Self:  # Any: as they were given
        try:
            return build(values)
        except ValidationError as error:
            raise UsageError(_unknown(error, cls) or first_wrong(error, cls.__name__)) from error


def _unknown(error: ValidationError, model: type[BaseModel]) -> str:
    """One line about a first value that has a name of its own invention; else nothing."""
    first = error.errors()[0]
    if first["type"] != "extra_forbidden" or len(first["loc"]) != 1:
        return ""
    return nearest(f"field of {model.__name__}:", first["loc"][0], model.model_fields)


def shown(value: object) -> str:
    """A value as Python writes it, cut where it would fill the line."""
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text):,} characters)"


def first_wrong(error: ValidationError, whole: str) -> str:
    """One line about the first value that does not fit; `whole` names what has no field of its own."""
    first = error.errors()[0]
    if first["type"] == "missing":  # its input is all that is there
        *within, field = map(str, first["loc"])
        return f"{'.'.join(within) or whole} has no {field!r}"
    steps = [str(step) for step in first["loc"]]
    if first["type"] == "union_tag_invalid":  # its message quotes the tag in full
        about = first["ctx"]
        steps.append(about["discriminator"].strip("'"))
        return f"{'.'.join(steps)} is {shown(about['tag'])}: expected one of {about['expected_tags']}"
    where = ".".join(step for step in steps if not step.startswith(BRANCH)) or whole
    message = str(first["msg"])
    expected = message.removeprefix("Input should be ")
    return f"{where} is {shown(first['input'])}: {message if expected == message else 'expected ' + expected}"
