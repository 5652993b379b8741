"""What every scheme can be told, and how settings are made from plain values."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ModelWrapValidatorHandler, ValidationError, model_validator

from sottovoce.channels.message import LONGEST_REPLY
from sottovoce.errors import UsageError
from sottovoce.sizes import Size

Temperature = Annotated[float, Field(ge=0, allow_inf_nan=False)]

OF_SAMPLING = ("top_p", "top_k", "repetition_penalty")
OF_LOADING = ("dtype", "device", "thinking", "memory", "exact")
COMPONENTS = ("question_description", "answer_description", "demonstrations", "chain_of_thought")
OF_PROTOCOL = ("compat", "layers", "inject", "allow_other_weights", "partial", "partial_at", "threshold")


class Settings(BaseModel):
    """What every scheme can be told."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    protocol: Literal["nl", "cipher", "sde", "hidden"] = Field(
        default="nl", description="what a message carries: words, mean embeddings, state deltas, or raw states"
    )
    model: list[str] = Field(
        default=["bundled"],
        description="'bundled', a folder, a hub id, or hosted:PROVIDER:MODEL; one for all agents, or one each",
    )
    temperature: list[Temperature] = Field(
        default=[],
        description="one for all agents, or one each; else the scheme's, or as the protocol spreads the models' own",
    )
    top_p: float | None = Field(default=None, gt=0, le=1, description="keep tokens to this mass; else the model's own")
    top_k: int | None = Field(default=None, ge=0, description="keep this many tokens, 0 all; else the model's own")
    repetition_penalty: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="1 switches it off; else the model's own"
    )
    system: list[str] = Field(default=[], description="system prompt; one for all agents, or one each")
    max_tokens: int = Field(default=LONGEST_REPLY, ge=1, description="longest reply, in tokens")
    seed: int = Field(default=0, description="of the run; every call derives its own from it")
    prompts: str | None = Field(default=None, description="a folder whose files replace ours (a prompt pack)")
    question_description: bool = Field(default=True, description="tell what questions of the task are like, if it says")
    answer_description: bool = Field(default=True, description="ask for the form of the answer")
    demonstrations: bool = Field(default=True, description="show the task's worked examples, if it has any")
    chain_of_thought: bool = Field(default=True, description="ask for the steps before the answer")
    compat: Literal["paper", "reference"] = Field(
        default="paper", description="follow the papers, or their published code"
    )
    layers: list[Annotated[int, Field(ge=0)]] = Field(default=[], description="sde, hidden: decoder layers, 0-based")
    inject: Literal["latest", "all"] = Field(
        default="latest", description="sde, hidden: which messages carry their states"
    )
    allow_other_weights: bool = Field(
        default=False, description="sde, hidden: let models of equal shape exchange states"
    )
    partial: Literal["entropy", "entropy_reversed", "max", "max_reversed"] | None = Field(
        default=None, description="cipher: average only where uncertain (or certain), else one token"
    )
    partial_at: Literal["one", "generation"] = Field(
        default="one", description="cipher: take the criterion of --partial at temperature one, or the generation's"
    )
    threshold: float | None = Field(
        default=None, allow_inf_nan=False, description="cipher: of --partial, nats or probability"
    )
    fallback: Literal["error", "nl"] = Field(
        default="error", description="edges that the protocol cannot carry: refuse, or words"
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        default="auto", description="of the models' weights"
    )
    device: str = Field(default="auto", description="auto, cpu, cuda, cuda:1, mps, or map (spread over all devices)")
    thinking: bool | None = Field(
        default=None, description="the switch of the models' chat templates; else as each has it"
    )
    memory: Size | None = Field(
        default=None, description="for keys and values of each model, like 4GB; else a share of what is free"
    )
    exact: bool = Field(default=False, description="equal bits whatever else runs; slower, and for float32 on a CPU")

    discusses: ClassVar[bool] = False
    """Whether its agents hear one another."""
    warmth: ClassVar[float | None] = None
    """The scheme's own temperature where none was set; None leaves it to the models."""

    def speakers(self) -> list[str]:
        """The agents that discuss, in order."""
        return ["agent_1"]

    def staff(self) -> list[str]:
        """Who hears the agents and is not one of them: moderator, judge, secretary."""
        return []

    def names(self) -> list[str]:
        """Everybody with a model: the agents that discuss, then the staff."""
        return [*self.speakers(), *self.staff()]

    def groups(self) -> list[list[str]]:
        """Who discusses together; one group unless a scheme divides its agents."""
        return [self.speakers()]

    def edges(self) -> list[tuple[str, str]]:
        """Who hears whose messages, as (speaker, hearer), over the whole discussion."""
        if not self.discusses:
            return []
        return [(speaker, hearer) for speaker in self.speakers() for hearer in self.names() if speaker != hearer]

    def owners(self) -> list[str] | None:
        """Whom private documents may belong to, the staff among them; None where one agent reads them all."""
        return self.names() if self.discusses else None

    def layout(self) -> tuple[str, ...]:
        """What a graph's nodes and edges are made for: a run cannot change it."""
        return ()

    def needs(self) -> dict[str, str]:
        """Fields without which a question cannot be discussed, and what for."""
        return {}

    def components(self) -> frozenset[str]:
        """The prompt components that are switched on (CMD, section 4.5)."""
        return frozenset(name for name in COMPONENTS if getattr(self, name))

    def each(self, field: str) -> list[Any]:  # Any: the field's own type
        """A per-agent field, one value for each of `names`; [] where none was given.

        One value goes to all. One for each agent that discusses leaves the staff the first agent's, but
        no system prompt: that was meant for an agent.

        Raises:
            UsageError: the number of values fits neither.
        """
        values, n, staff = list(getattr(self, field)), len(self.speakers()), len(self.staff())
        if len(values) in (0, n + staff):
            return values
        if len(values) == 1:
            return values * (n + staff)
        if len(values) == n:
            return values + ["" if field == "system" else values[0]] * staff
        asked = f"{n} agents" + (f" and {', '.join(self.staff())}" if staff else "")
        raise UsageError(f"{field} has {len(values)} values for {asked}; give one for all, or one each")

    @staticmethod
    def of_models() -> set[str]:
        """The settings that make a model: one that is given as an object brings its own."""
        return {"model", "max_tokens", *OF_LOADING, *OF_SAMPLING, *OF_PROTOCOL}

    def protocol_options(self) -> dict[str, Any]:  # Any: each protocol's own options
        """The options set for the protocol, without those left at their defaults."""
        fields = type(self).model_fields
        changed = {name: getattr(self, name) for name in OF_PROTOCOL if getattr(self, name) != fields[name].default}
        return {name: tuple(value) if isinstance(value, list) else value for name, value in changed.items()}

    @model_validator(mode="wrap")
    @classmethod
    def _in_one_line(cls, values: Any, build: ModelWrapValidatorHandler[Self]) -> Self:  # Any: as they were given
        """LangGraph makes the context's settings itself: whoever makes them, the complaint is our one line."""
        try:
            return build(values)
        except ValidationError as error:
            raise UsageError(first_wrong(error, cls.__name__)) from error

    @model_validator(mode="after")
    def _one_or_each(self) -> Settings:
        for field in ("model", "temperature", "system"):
            self.each(field)
        if not self.model:
            raise UsageError("no model was given; expected 'bundled', a folder or a hub id")
        return self


AnySettings = TypeVar("AnySettings", bound=Settings)
AnyModel = TypeVar("AnyModel", bound=BaseModel)


def validated(kind: type[AnyModel], values: dict[str, Any]) -> AnyModel:  # Any: values as they were given
    """Settings (or other options) from plain values.

    Raises:
        UsageError: one line for the first value that does not fit.
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise UsageError(first_wrong(error, kind.__name__)) from error


def first_wrong(error: ValidationError, whole: str) -> str:
    """One line about the first value that does not fit; `whole` names what has no field of its own."""
    first = error.errors()[0]
    where, message = ".".join(str(step) for step in first["loc"]) or whole, str(first["msg"])
    expected = message.removeprefix("Input should be ")
    return f"{where} is {first['input']!r}: {message if expected == message else 'expected ' + expected}"
