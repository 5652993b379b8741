"""What every scheme can be told, and how settings are made from plain values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema

from sottovoce.bounds import LONGEST_WAIT, Count, Seed, Tokens
from sottovoce.channels.options import LONGEST_REPLY, CipherOptions, StateOptions
from sottovoce.channels.registry import PROTOCOLS
from sottovoce.errors import UsageError, choose
from sottovoce.nodes.settings.groups import COMPONENTS, OF_LOADING, OF_PROTOCOL, OF_SAMPLING, place
from sottovoce.nodes.settings.people import People
from sottovoce.nodes.settings.watched import Watched
from sottovoce.prompts import packs
from sottovoce.prompts.kinds import KindName
from sottovoce.sizes import Size
from sottovoce.trust import Names, Words

EACH = ("model", "temperature", "system", "dtype", "weights", "device", "memory")
"""One value for all agents, or one each."""

Temperature = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Dtype = Literal["auto", "float32", "bfloat16", "float16"]
Answers = Literal["short", "sentence"]
Control = Literal["none", "own", "empty", "filler", "decoy"]
Escalate = Literal["never", "disagreement", "uncertainty"]
Weights = Literal["auto", "float32", "bfloat16", "int8", "int4"]
Documents = Sequence[Any] | Mapping[str, Sequence[Any]]  # Any: a `Document`, which stands beside
"""For all agents, or by agent: see `Question`."""


def pairs(given: Any, info: ValidationInfo) -> Any:  # Any: as it was given
    """Return NAME=VALUE as a command line has it, values in JSON where they are; a mapping as it is."""
    if not isinstance(given, list):
        return given
    split = [str(text).partition("=") for text in given]
    if wrong := next((text for text, (_, sign, _) in zip(given, split, strict=True) if not sign), None):
        agents = ", or AGENT.NAME=VALUE for one agent" if info.field_name == "option" else ""
        raise UsageError(f"{info.field_name} is {wrong!r}; expected NAME=VALUE{agents}")
    return {name: _plain(value) for name, _, value in split}


def _plain(value: str) -> Any:  # Any: JSON
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


class Settings(People, Watched, CipherOptions, StateOptions):
    """What every scheme can be told. Options of our protocols stand here as fields of their own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    protocol: Annotated[str, Words()] = Field(
        default="nl",
        description="what a message carries: words, mean embeddings, state deltas, or raw states",
        json_schema_extra=lambda schema: schema.update(enum=[*PROTOCOLS.names()]),
    )
    option: Annotated[dict[str, Any], BeforeValidator(pairs), Words()] = Field(  # Any: each protocol's own
        default={}, description="NAME=VALUE for the protocol, or AGENT.NAME=VALUE for one agent"
    )
    model: Annotated[list[str], Names("model", ("bundled",))] = Field(
        default=["bundled"],
        description="'bundled', a pulled model (`models list`), a folder, a .gguf file, a hub id, or "
        "hosted:PROVIDER:MODEL; one for all agents, or one each",
    )
    temperature: list[Temperature] = Field(
        default=[],
        description="one for all agents, or one each; else the scheme's, or as the protocol spreads the models' own",
    )
    top_p: float | None = Field(default=None, gt=0, le=1, description="keep tokens to this mass; else the model's own")
    top_k: Count | None = Field(default=None, ge=0, description="keep this many tokens, 0 all; else the model's own")
    repetition_penalty: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="1 switches it off; else the model's own"
    )
    system: Annotated[list[str], Words()] = Field(
        default=[], description="system prompt; one for all agents, or one each"
    )
    max_tokens: Tokens = Field(default=LONGEST_REPLY, ge=1, description="longest reply, in tokens")
    timeout: float | None = Field(
        default=None,
        gt=0,
        le=LONGEST_WAIT,
        allow_inf_nan=False,
        description="seconds that a reply may take; else as long as it takes",
    )
    seed: Seed = Field(default=0, description="of the run; every call derives its own from it")
    prompts: Annotated[str | None, Names("prompt pack", packs.OFFERED)] = Field(
        default=None,
        description="Prompt pack: paper (the set-up of the scheme's paper), a name such as paper/madra, or a folder "
        "whose files replace the default prompts.",
    )
    answers: Literal["auto", "short", "sentence"] = Field(
        default="auto",
        description="Wording of the request for an answer: short (reason, then a last line `Answer: ...`), sentence, "
        "or auto (sentence for local models below a billion parameters).",
    )
    question_description: bool = Field(default=True, description="tell what questions of the task are like, if it says")
    answer_description: bool = Field(default=True, description="ask for the form of the answer")
    demonstrations: bool = Field(default=True, description="show the task's worked examples, if it has any")
    chain_of_thought: bool = Field(default=True, description="ask for the steps before the answer")
    answer_turn: bool = Field(
        default=True, description="ask once more, for the answer alone, where none can be read from a reply"
    )
    fallback: Literal["error", "nl"] = Field(
        default="error", description="edges that the protocol cannot carry: refuse, or words"
    )
    guide: Literal["auto", "on", "off"] = Field(
        default="auto",
        description="keep replies to their forms while written: auto leaves numbers and reasoned replies free; on, off",
    )
    dtype: Annotated[list[Dtype], Names("dtype", opens=False)] = Field(
        default=["auto"], description="that the models compute in; one for all, or one each"
    )
    weights: Annotated[list[Weights], Names("format of weights", opens=False)] = Field(
        default=["auto"],
        description="how the models' matrices are stored: as they compute, or packed (on a CPU: int8, int4); "
        "one for all, or one each",
    )
    device: Annotated[list[str], Names("device", ("auto", "cpu"), opens=False)] = Field(
        default=["auto"], description="auto, cpu, cuda, cuda:1, mps, or map (spread over all); one for all, or one each"
    )
    memory: Annotated[list[Size], Names("amount of memory", opens=False)] = Field(
        default=[],
        description="for keys and values of a model, like 4GB; one for all, or one each; else a share of what is free",
    )
    thinking: bool | None = Field(
        default=None, description="the switch of the models' chat templates; else as each has it"
    )
    exact: bool = Field(default=False, description="equal bits whatever else runs; slower, and for float32 on a CPU")

    discusses: ClassVar[bool] = True
    """Whether its agents hear one another."""
    sample: ClassVar[str] = "arithmetic"
    """The samples that are asked where nothing else is."""
    world: ClassVar[str] = ""
    """Where the `World` is whose games the scheme plays, as "module:attribute"; empty where it plays none."""
    answers_in: ClassVar[KindName | None] = None
    """The kind of all its answers, whatever a question says; None leaves it to the question."""
    unrolls: ClassVar[str] = ""
    """Why its calls cannot be told before they are made; empty where they can."""
    default_temperature: ClassVar[float | None] = None
    """The scheme's own where none was set; None leaves it to the models."""
    spreads_temperature: ClassVar[bool] = True
    """True where a protocol that averages may replace the scheme's own temperature by one for each agent."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The form that Studio shows of it, in the order of the command line."""
        schema = handler(core)
        form = handler.resolve_ref_schema(schema)
        form["properties"] = {name: form["properties"][name] for name in sorted(form["properties"], key=place)}
        return schema

    @classmethod
    def given(cls, settings: Any) -> Self:  # Any: as a caller gave them
        """A caller's settings; None are the defaults, and a dict is made into settings.

        Raises:
            UsageError: they are another scheme's, or none.
        """
        if isinstance(settings, cls):
            return settings
        if isinstance(settings, Settings):
            raise UsageError(f"the settings are of {type(settings).__name__}; this graph takes those of {cls.__name__}")
        return cls() if settings is None else cls.model_validate(settings)

    def speakers(self) -> list[str]:
        """The agents that discuss, in order: agent_1 .. agent_n, of a scheme that has a field `agents`."""
        return [f"agent_{i + 1}" for i in range(getattr(self, "agents", 1))]

    def others(self) -> list[str]:
        """Who has a model and does not discuss, each named by its role: moderator, judge, secretary."""
        return []

    def names(self) -> list[str]:
        """Everybody with a model: the agents that discuss, then the others."""
        return [*self.speakers(), *self.others()]

    def edges(self) -> list[tuple[str, str]]:
        """Who hears whose messages, as (speaker, hearer), over the whole discussion."""
        if not self.discusses:
            return []
        return [(speaker, hearer) for speaker in self.speakers() for hearer in self.names() if speaker != hearer]

    def heard(self) -> list[str]:
        """Whose words people can approve."""
        return self.names()

    def owners(self) -> list[str] | None:
        """Whom private documents may belong to; None where one agent reads them all."""
        return self.names() if self.discusses else None

    def dealt(self, documents: Documents) -> Documents:
        """The question's documents as agents are shown them."""
        return documents

    def topology(self) -> tuple[str, ...]:
        """What a graph's nodes and edges are made for: a run cannot change it."""
        return (f"{len(self.speakers())} agents",)

    def needs(self) -> dict[str, str]:
        """Fields without which a question cannot be discussed, and what for."""
        return {}

    def check_game(self, question: Mapping[str, Any]) -> None:  # Any: fields of a `Question`, which stands beside
        """Refuse a question's game that these settings cannot play; a world's own do otherwise than this.

        Raises:
            UsageError: says what is wrong with it.
        """
        raise UsageError("the question brings a game, and this scheme plays none; ask it of the world that it is of")

    def check_levers(self, game: Mapping[str, Any]) -> None:  # Any: the settings' own types
        """Refuse a lever that was set otherwise than a stored game has it: the game's would be played.

        Raises:
            UsageError: names the lever, and both values.
        """
        for name in [name for name in game if name in self.model_fields_set]:
            if (mine := getattr(self, name)) != game[name]:
                raise UsageError(f"{name} is {mine!r}, but the game has {game[name]!r}; leave it out")

    def pack_folder(self, pack: str) -> Path:
        """Return the folder of a prompt pack.

        Raises:
            UsageError: `paper` has no set-up for this scheme.
        """
        return packs.folder_of(pack, type(self).__name__.lower(), self.protocol)

    def components(self) -> frozenset[str]:
        """The prompt components that are switched on (CMD, section 4.5)."""
        return frozenset(name for name in COMPONENTS if getattr(self, name))

    def each(self, field: str) -> list[Any]:  # Any: the field's own type
        """A per-agent field, one value for each of `names`; [] where none was given.

        One value goes to all. One for each agent that discusses leaves the others the first agent's, but
        no system prompt: that was meant for an agent.

        Raises:
            UsageError: the number of values fits neither.
        """
        values, n, more = list(getattr(self, field)), len(self.speakers()), len(self.others())
        if len(values) in (0, n + more):
            return values
        if len(values) == 1:
            return values * (n + more)
        if len(values) == n:
            return values + ["" if field == "system" else values[0]] * more
        asked = f"{n} agents" + (f" and {', '.join(self.others())}" if more else "")
        raise UsageError(f"{field} has {len(values)} values for {asked}; give one for all, or one each")

    def of(self, field: str, agent: str) -> Any:  # Any: the field's own type
        """One agent's value of a per-agent field; None where none was given."""
        values = self.each(field)
        return values[self.names().index(agent)] if values else None

    @staticmethod
    def of_models() -> set[str]:
        """The settings that make a model: one that is given as an object brings its own."""
        return {"model", "max_tokens", "option", "timeout", *OF_LOADING, *OF_SAMPLING, *OF_PROTOCOL}

    def options(self, agent: str) -> dict[str, Any]:  # Any: each protocol's own options
        """The options set for an agent's protocol: fields that are not at their defaults, then `option`'s."""
        fields = type(self).model_fields
        found = {name: getattr(self, name) for name in OF_PROTOCOL if getattr(self, name) != fields[name].default}
        for name, value in sorted(self.option.items(), key=lambda pair: "." in pair[0]):  # an agent's own come last
            owner, dot, own = name.rpartition(".")
            found |= {own: value} if not dot or owner == agent else {}
        return found

    @field_validator("protocol")
    @classmethod
    def _known(cls, protocol: str) -> str:
        if protocol not in PROTOCOLS:
            raise UsageError(choose("protocol", protocol, PROTOCOLS.names()))
        return protocol

    @model_validator(mode="after")
    def _one_or_each(self) -> Settings:
        for field in EACH:
            self.each(field)
        if not self.model:
            raise UsageError("no model was given; expected 'bundled', 'smollm2', a folder, a .gguf file or a hub id")
        for owner in (name.rpartition(".")[0] for name in self.option):
            if owner and owner not in self.names():
                raise UsageError(choose("agent among the options:", owner, self.names()))
        self.check_people(self.names(), [name for agent in self.heard() for name in (agent, self.role_of(agent))])
        return self


class Controlled(Settings):
    """What schemes can be told whose agents read one another's messages, and may read something else as a control."""

    control: Control = Field(
        default="none",
        description="what agents hear in the place of one another's messages, to see what these do: "
        "their own of that round, an empty one, filler of as many tokens, "
        "or a decoy of the question (a solution of another one)",
    )

    escalate: Escalate = Field(
        default="never",
        description="hear one another's messages as words, and what lies under them only where the votes of their "
        "round differ, or where their mean entropy is high; never: always both",
    )
    escalate_above: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="of --escalate uncertainty: mean entropy, nats a token"
    )

    @model_validator(mode="after")
    def _above_a_threshold(self) -> Controlled:
        if (self.escalate == "uncertainty") != (self.escalate_above is not None):
            raise UsageError(
                f"escalate is {self.escalate!r} and escalate_above {self.escalate_above}; give uncertainty and a "
                "threshold in nats, or another alone"
            )
        return self

    def needs(self) -> dict[str, str]:
        """Decoys, where they are heard."""
        return {"decoys": "the control is 'decoy'"} if self.control == "decoy" else {}


AnySettings = TypeVar("AnySettings", bound=Settings)
