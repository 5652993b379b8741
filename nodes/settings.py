"""The settings of each scheme, declared once: command line, Studio's form, YAML and context read them.

Nothing here imports torch or langgraph: the command line reads it to print its help.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ModelWrapValidatorHandler, ValidationError, model_validator

from sottovoce.channels.message import LONGEST_REPLY
from sottovoce.errors import UsageError
from sottovoce.sizes import Size

Order = Literal["others_first", "own_first"]
FinalRule = Literal["majority", "lowest_temperature", "average"]
Role = Literal["debater", "expert", "dummy"]
Temperature = Annotated[float, Field(ge=0, allow_inf_nan=False)]

OF_SAMPLING = ("top_p", "top_k", "repetition_penalty")
OF_LOADING = ("dtype", "device", "thinking", "memory", "exact")
OF_PROTOCOL = ("compat", "layers", "inject", "allow_other_weights", "partial", "partial_at", "threshold")


class Settings(BaseModel):
    """What every scheme can be told."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    protocol: Literal["nl", "cipher", "sde", "hidden"] = Field(
        default="nl", description="what a message carries: words, mean embeddings, state deltas, or raw states"
    )
    model: list[str] = Field(
        default=["bundled"], description="'bundled', a folder or a hub id; one for all agents, or one each"
    )
    temperature: list[Temperature] = Field(
        default=[], description="one for all agents, or one each; the protocol's default if none"
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

    def names(self) -> list[str]:
        """The agents that speak in this scheme, in order."""
        return ["agent_1"]

    def owners(self) -> list[str] | None:
        """The agents that private documents may belong to; None where one agent reads them all."""
        return None

    def layout(self) -> tuple[str, ...]:
        """What a graph's nodes and edges are made for: a run cannot change it."""
        return ()

    def needs(self) -> dict[str, str]:
        """Fields without which a question cannot be discussed, and what for."""
        return {}

    def each(self, field: str) -> list[Any]:  # Any: the field's own type
        """A per-agent field, one value for each agent; [] where none was given.

        Raises:
            UsageError: the number of values is neither one nor one per agent.
        """
        values, n = list(getattr(self, field)), len(self.names())
        if len(values) in (0, n):
            return values
        if len(values) == 1:
            return values * n
        raise UsageError(f"{field} has {len(values)} values for {n} agents; give one for all, or one each")

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


class Debate(Settings):
    """Several agents answer, read one another's answers, and answer again (Du et al. 2023)."""

    discusses: ClassVar[bool] = True

    agents: int = Field(default=2, ge=1, description="how many agents")
    rounds: int = Field(default=3, ge=1, description="rounds, the independent answers included")
    shape: Literal["history", "fresh"] = Field(
        default="history", description="a chat that grows, or one prompt a round (CIPHER)"
    )
    order: Order | None = Field(
        default=None, description="restate the own answer after or before the others' (fresh: others first)"
    )
    summarise: Literal["none", "each", "shared"] = Field(
        default="none", description="agents read a summary: of the others' answers each, or one of all answers"
    )
    role: list[Role] = Field(
        default=[], description="debater, expert (knows the solution) or dummy (says another one); one each"
    )
    rule: FinalRule | None = Field(default=None, description="how it is decided; the protocol's own rule if not given")
    last_round: Literal["all", "deciding"] = Field(
        default="all", description="who speaks last: all, or only the deciding agent"
    )

    def names(self) -> list[str]:
        """agent_1 .. agent_n."""
        return [f"agent_{i + 1}" for i in range(self.agents)]

    def owners(self) -> list[str] | None:
        """Each agent reads its own documents."""
        return self.names()

    def layout(self) -> tuple[str, ...]:
        """A node for each agent, and one for a shared summary."""
        return f"{self.agents} agents", f"{'a' if self.summarise == 'shared' else 'no'} shared summary"

    def roles(self) -> dict[str, Role]:
        """What each agent plays."""
        return dict(zip(self.names(), self.each("role") or ["debater"] * self.agents, strict=True))

    def needs(self) -> dict[str, str]:
        """An expert says the solution, a dummy a decoy (CIPHER's bounds)."""
        said = {"expert": ("solution", "is an expert"), "dummy": ("decoys", "is a dummy")}
        wanted = {name: said[part] for name, part in self.roles().items() if part in said}
        return {field: f"agent {name!r} {what}" for name, (field, what) in wanted.items()}

    @model_validator(mode="after")
    def _fits(self) -> Debate:
        self.each("role")
        if self.last_round == "deciding" and self.rule in ("majority", "average"):
            raise UsageError(
                f"the rule {self.rule!r} looks at all agents, but last_round 'deciding' lets one of them speak; "
                "use --rule lowest_temperature or --last-round all"
            )
        if self.summarise != "none" and (self.shape == "fresh" or self.order is not None):
            raise UsageError(
                "summaries stand in the place of the others' answers in a chat; "
                "use --summarise with --shape history and without --order"
            )
        if self.agents == 1 and self.summarise != "none":
            raise UsageError("a debate of one agent has no answers to sum up; give --agents 2 or more")
        return self


class Single(Settings):
    """One agent answers once, with the documents of all: the first baseline."""


class SelfConsistency(Settings):
    """Independent samples of one agent, and the most frequent answer: the second baseline.

    Samples are drawn in words under every protocol: a mean of embeddings leaves nothing to draw.
    """

    samples: int = Field(default=5, ge=1, description="how many samples")

    def names(self) -> list[str]:
        """sample_1 .. sample_k."""
        return [f"sample_{i + 1}" for i in range(self.samples)]

    def layout(self) -> tuple[str, ...]:
        """A node for each sample."""
        return (f"{self.samples} samples",)

    @model_validator(mode="after")
    def _of_one_agent(self) -> SelfConsistency:
        for field in ("model", "temperature", "system"):
            if len(getattr(self, field)) > 1:
                raise UsageError(f"{field} has {len(getattr(self, field))} values; samples are of one agent, give one")
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
