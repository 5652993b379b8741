"""The options of the protocols, each declared once: for code, command line, forms and files alike. Loads no torch."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ModelWrapValidatorHandler, ValidationError, model_validator

from sottovoce.errors import UsageError

CompatName = Literal["paper", "reference"]
Partial = Literal["entropy", "entropy_reversed", "max", "max_reversed"]
CriterionAt = Literal["one", "generation"]
Inject = Literal["latest", "all"]


class ProtocolOptions(BaseModel):
    """What every protocol can be told; whoever makes them, a value that does not fit is a UsageError of one line."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    compat: CompatName = Field(default="paper", description="follow the papers, or their published code")

    @model_validator(mode="wrap")
    @classmethod
    def _in_one_line(cls, values: Any, build: ModelWrapValidatorHandler[Self]) -> Self:  # Any: as they were given
        try:
            return build(values)
        except ValidationError as error:
            raise UsageError(first_wrong(error, cls.__name__)) from error


class CipherOptions(ProtocolOptions):
    """Where CIPHER averages."""

    partial: Partial | None = Field(
        default=None, description="cipher: average only where uncertain (or certain), else one token"
    )
    partial_at: CriterionAt = Field(
        default="one", description="cipher: take the criterion of --partial at temperature one, or the generation's"
    )
    threshold: float | None = Field(
        default=None, allow_inf_nan=False, description="cipher: of --partial, nats or probability"
    )

    @model_validator(mode="after")
    def _threshold_of_a_criterion(self) -> Self:
        if self.partial is None and self.threshold is not None:
            raise UsageError(
                "cipher got a threshold but no criterion; set partial to one of entropy, max, ..._reversed"
            )
        return self


class StateOptions(ProtocolOptions):
    """Which states SDE and `hidden` read and add, and for whom."""

    layers: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        default=(), description="sde, hidden: decoder layers, 0-based"
    )
    inject: Inject = Field(default="latest", description="sde, hidden: which messages carry their states")
    allow_other_weights: bool = Field(
        default=False, description="sde, hidden: let models of equal shape exchange states"
    )


def first_wrong(error: ValidationError, whole: str) -> str:
    """One line about the first value that does not fit; `whole` names what has no field of its own."""
    first = error.errors()[0]
    where, message = ".".join(str(step) for step in first["loc"]) or whole, str(first["msg"])
    expected = message.removeprefix("Input should be ")
    return f"{where} is {first['input']!r}: {message if expected == message else 'expected ' + expected}"
