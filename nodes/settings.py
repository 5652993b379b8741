"""The settings that all schemes share, and their construction from plain values."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, get_args, get_origin

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

from sottovoce.channels import PROTOCOLS
from sottovoce.channels.options import LONGEST_REPLY, CipherOptions, GraftOptions, StateOptions, ThoughtsOptions
from sottovoce.core.any_types import AnyState, JSONValue, Keywords
from sottovoce.core.bounds import LONGEST_WAIT, Count, Seed, Size, Thinking, Tokens
from sottovoce.core.catalogue import CATALOGUE
from sottovoce.core.errors import UsageError, nearest
from sottovoce.core.thoughts import THOUGHTS
from sottovoce.core.trust import Names, Words
from sottovoce.nodes.option_groups import OF_LOADING, OF_PROTOCOL, OF_SAMPLING, People, Watched, place
from sottovoce.prompts import OFFERED, folder_of
from sottovoce.prompts.kinds import KindName

EACH = ("model", "temperature", "system", "dtype", "weights", "device", "memory")
"""Fields with one value for all agents, or one each."""

Marker = Annotated[str, Field(min_length=1, pattern=r"\S")]
Temperature = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Dtype = Literal["auto", "float32", "bfloat16", "float16"]
Answers = Literal["short", "sentence"]
AnswerTurn = Literal["needed", "every", "off"]
Weights = Literal["auto", "float32", "bfloat16", "int8", "int4"]
Documents = Sequence[JSONValue] | Mapping[str, Sequence[JSONValue]]
"""Documents of all agents, or by agent: see `Question`."""


def pairs(value: JSONValue, info: ValidationInfo) -> JSONValue:
    """Return NAME=VALUE texts of a command line as a mapping, with JSON values parsed. A mapping stays unchanged."""
    if not isinstance(value, list):
        return value
    split = [str(text).partition("=") for text in value]
    if wrong := next((text for text, (_, sign, _) in zip(value, split, strict=True) if not sign), None):
        agents = ", or AGENT.NAME=VALUE for one agent" if info.field_name == "option" else ""
        raise UsageError(f"{str(info.field_name).strip('_')} is {wrong!r}; expected NAME=VALUE{agents}")
    found: dict[str, JSONValue] = {name: text for name, _, text in split}
    for name, text in found.items():
        with suppress(ValueError, RecursionError):
            found[name] = json.loads(text)
    return found


def catalogued() -> Collection[str]:
    """Return the names of models that `models pull` gets, each with a known digest."""
    return CATALOGUE


Model = Annotated[
    list[str],
    Names("model", ("bundled",), pinned=catalogued),
    Field(
        description="'bundled', a pulled model (`models list`), a folder, a .gguf file, a hub id, or "
        "hosted:PROVIDER:MODEL. One for all agents, or one each."
    ),
]
"""The field of models: a scheme that the bundled model was trained for sets its default to that."""


class Settings(People, Watched, CipherOptions, StateOptions, ThoughtsOptions, GraftOptions):
    """The settings of every scheme, with the options of the built-in protocols as fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    protocol: Annotated[str, Words()] = Field(
        default="nl",
        description="What a message carries: nl (text), cipher (mean embeddings), sde (state deltas), hidden "
        "(raw states), kv (keys and values), thoughts (latent steps) or graft (one state).",
        json_schema_extra=lambda schema: schema.update(enum=[*PROTOCOLS.names()]),
    )
    option: Annotated[dict[str, Keywords], BeforeValidator(pairs), Words()] = Field(
        default={},
        description="NAME=VALUE: a documented setting without an option of its own, or a protocol's option, also "
        "AGENT.NAME=VALUE for one agent.",
    )
    model: Model = Field(default=["smollm2"])
    temperature: list[Temperature] = Field(
        default=[],
        description="Sampling temperature. One for all agents, or one each. If not set: by scheme, model and protocol.",
    )
    top_p: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="Sample from the most probable tokens up to this total probability, in (0, 1]. "
        "If not set: the model's.",
    )
    top_k: Count | None = Field(
        default=None,
        ge=0,
        description="Sample from this many most probable tokens; 0 means all. If not set: the model's.",
    )
    repetition_penalty: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="Penalty on tokens that were used before; 1 means none. If not set: the model's.",
    )
    system: Annotated[list[str], Words()] = Field(
        default=[], description="System prompt. One for all agents, or one each."
    )
    max_tokens: Tokens = Field(default=LONGEST_REPLY, ge=1, description="Maximum length of a reply, in tokens.")
    timeout: float | None = Field(
        default=None,
        gt=0,
        le=LONGEST_WAIT,
        allow_inf_nan=False,
        description="Maximum time for a reply, in seconds. If not set: no limit.",
    )
    seed: Seed = Field(default=0, description="Seed of the run, from which calls derive theirs.")
    prompts: Annotated[str | None, Names("prompt pack", OFFERED)] = Field(
        default=None,
        description="Prompt pack: paper (the setup of the scheme's paper), a name such as paper/madra, or a folder "
        "whose files replace the default prompts.",
    )
    question_description: bool = Field(
        default=True, description="Include the task's description of its questions, if it has one."
    )
    answer_description: bool = Field(default=True, description="State the required form of the answer.")
    demonstrations: bool = Field(default=True, description="Show the task's worked examples, if it has any.")
    chain_of_thought: bool = Field(default=True, description="Ask for the reasoning steps before the answer.")
    answer_turn: AnswerTurn = Field(
        default="needed",
        description="If a reply states no answer, ask for the answer alone: needed (only where the scheme reads it), "
        "every (after each message, for measures by round), or off.",
    )
    fallback: Literal["error", "nl"] = Field(
        default="error",
        description="For two models that the protocol cannot connect: error (refuse the run) or nl (send text).",
    )
    guide: Literal["auto", "on", "off"] = Field(
        default="auto",
        description="Constrained decoding of replies in their required form: auto (not for numbers or freely reasoned "
        "answers), on, or off.",
    )
    dtype: Annotated[list[Dtype], Names("dtype", opens=False)] = Field(
        default=["auto"],
        min_length=1,
        description="Data type in which models compute. One for all agents, or one each.",
    )
    weights: Annotated[list[Weights], Names("format of weights", opens=False)] = Field(
        default=["auto"],
        min_length=1,
        description="Storage of weight matrices: as --dtype, or packed (on a CPU: int8, int4). "
        "One for all agents, or one each.",
    )
    device: Annotated[list[str], Names("device", ("auto", "cpu"), opens=False)] = Field(
        default=["auto"],
        description="auto, cpu, cuda, cuda:1, mps, or map (spread over all devices). One for all agents, or one each.",
    )
    memory: Annotated[list[Size], Names("amount of memory", opens=False)] = Field(
        default=[],
        description="Memory for a model's keys and values, such as 4GB. One for all agents, or one each. "
        "If not set: a share of the free memory.",
    )
    thinking: Thinking | None = Field(
        default=None,
        description="Thoughts of models that think, before each reply: on, off, or their maximum length in tokens. If "
        f"not set: as the chat template or the provider has it, at most {THOUGHTS}; off in react, whodunit and govsim "
        "if a local model's template has a switch.",
    )
    thinking_markers: Annotated[tuple[Marker, Marker] | None, Words()] = Field(
        default=None,
        description="Markers that open and close the thoughts in the text of a model of an unknown family.",
    )
    share_thoughts: bool = Field(
        default=False, description="Let agents hear the thoughts of the others too, in front of their messages."
    )
    exact: bool = Field(
        default=False,
        description="Make results bitwise equal whatever else is in the batch; slower, only for float32 on a CPU.",
    )

    discusses: ClassVar[bool] = True
    """True if its agents hear one another."""
    shows_documents: ClassVar[bool] = True
    """False if agents can only search a question's documents, or know what the rules of their world say."""
    answers_in: ClassVar[KindName | None] = None
    """The kind of all its answers, whatever a question says; None leaves it to the question."""
    brief: ClassVar[bool] = False
    """True if its published replies are so short that models with a switch for thinking do not think by default."""
    default_temperature: ClassVar[float | None] = None
    """The temperature if none is set; None leaves it to the models."""
    many_turns: ClassVar[bool] = False
    """True if messages of `thoughts` hand over only what their sender added, unless `keep` says otherwise: with what it
    received, each turn's message would be longer than the last."""
    spreads_temperature: ClassVar[bool] = True
    """True if a protocol that averages may replace the scheme's temperature by one for each agent."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return the JSON schema of Studio's form, with fields in the order of the command line."""
        schema = handler(core)
        form = handler.resolve_ref_schema(schema)
        form["properties"] = {name: form["properties"][name] for name in sorted(form["properties"], key=place)}
        return schema

    @classmethod
    def parse(cls, settings: JSONValue) -> Self:
        """Return a caller's settings. A dict is validated, and None means the defaults.

        Raises:
            UsageError: they belong to another scheme, or are invalid.
        """
        if isinstance(settings, cls):
            return settings
        if isinstance(settings, Settings):
            raise UsageError(f"the settings are {type(settings).__name__}; this graph expects {cls.__name__}")
        return cls() if settings is None else cls.model_validate(settings)

    def speakers(self) -> list[str]:
        """Return the agents that discuss, in order: agent_1 .. agent_n, or one if the scheme has no field `agents`."""
        return [f"agent_{i + 1}" for i in range(getattr(self, "agents", 1))]

    def others(self) -> list[str]:
        """Return the agents that have a model but do not discuss, named by role: moderator, judge, secretary."""
        return []

    def names(self) -> list[str]:
        """Return all agents with a model: those that discuss, then the others."""
        return [*self.speakers(), *self.others()]

    def edges(self) -> list[tuple[str, str]]:
        """Return the pairs (speaker, hearer) over the whole discussion."""
        if not self.discusses:
            return []
        return [(speaker, hearer) for speaker in self.speakers() for hearer in self.names() if speaker != hearer]

    @property
    def reads_certainty(self) -> bool:
        """True if the scheme reads how certain its agents' messages are, from the log-likelihood of their tokens."""
        return False

    def approvable(self) -> list[str]:
        """Return the agents whose messages people can approve."""
        return self.names()

    def owners(self) -> list[str] | None:
        """Return the agents that may have private documents, or None if one agent reads them all."""
        return self.names() if self.discusses else None

    def dealt(self, documents: Documents) -> Documents:
        """Return the question's documents as agents are shown them."""
        return documents if self.shows_documents else []

    def topology(self) -> tuple[str, ...]:
        """Return the values that determine a graph's nodes and edges. A run cannot change them."""
        return (f"{len(self.speakers())} agents",)

    def needs(self) -> dict[str, str]:
        """Return the fields that a question must have, each with the reason."""
        return {}

    def check_game(self, question: Mapping[str, JSONValue]) -> None:
        """Refuse a question's game with a UsageError; the settings of worlds, which can play one, override this."""
        raise UsageError("the question has a game, but this scheme plays none; run it with the game's own world")

    def check_levers(self, game: Mapping[str, AnyState]) -> None:
        """Raise a UsageError for a setting that differs from a stored game's value; the game's value would be used."""
        for name in [name for name in game if name in self.model_fields_set]:
            if (mine := getattr(self, name)) != game[name]:
                raise UsageError(f"{name} is {mine!r}, but the game has {game[name]!r}; leave it out")

    def pack_folder(self, pack: str) -> Path:
        """Return the folder of a prompt pack. Raise a UsageError if `paper` has no setup for this scheme."""
        return folder_of(pack, type(self).__name__.lower(), self.protocol)

    def per_agent(self, field: str) -> list[JSONValue]:
        """Return the values of a per-agent field, one for each of `names`, or [] if none was set.

        One value applies to all agents. With one value for each agent that discusses, the others get the first agent's
        value, but they do not get a system prompt.

        Raises:
            UsageError: the number of values fits none of these.
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

    def of(self, field: str, agent: str) -> JSONValue:
        """Return one agent's value of a per-agent field, or None if none was set."""
        values = self.per_agent(field)
        return values[self.names().index(agent)] if values else None

    @staticmethod
    def of_models() -> set[str]:
        """Return the settings that describe a model. A model passed as an object has its own."""
        return {"model", "max_tokens", "option", "timeout", *OF_LOADING, *OF_SAMPLING, *OF_PROTOCOL}

    def options(self, agent: str) -> dict[str, Keywords]:
        """Return the options of an agent's protocol: fields not at their defaults, updated with `option`."""
        fields = type(self).model_fields
        # A scheme may use a name for a setting of its own, as ReAct does `carry`: then `option` sets the protocol's.
        ours = [name for name in OF_PROTOCOL if fields[name].annotation == Settings.model_fields[name].annotation]
        found = {name: getattr(self, name) for name in ours if getattr(self, name) != fields[name].default}
        if self.many_turns and self.protocol == "thoughts":
            found.setdefault("keep", "added")
        for name, value in sorted(self.option.items(), key=lambda pair: "." in pair[0]):  # an agent's own override
            owner, dot, own = name.rpartition(".")
            found |= {own: value} if not dot or owner == agent else {}
        return found

    @field_validator("*", mode="before")
    @classmethod
    def _listed(cls, value: JSONValue, info: ValidationInfo) -> JSONValue:
        """Take a single value as a list of one: Debate(model="smollm2", temperature=0.2)."""
        annotation = cls.model_fields[str(info.field_name)].annotation
        many = get_origin(annotation) is list or get_args(annotation)[-1:] == (...,)
        return [value] if many and isinstance(value, (str, int, float)) else value

    @field_validator("protocol")
    @classmethod
    def _known(cls, protocol: str) -> str:
        if protocol not in PROTOCOLS:
            raise UsageError(nearest("protocol", protocol, PROTOCOLS.names()))
        return protocol

    @model_validator(mode="after")
    def _one_or_each(self) -> Settings:
        for field in EACH:
            self.per_agent(field)
        if not self.model:
            raise UsageError("no model is set; expected 'bundled', 'smollm2', a folder, a .gguf file or a hub id")
        if by_name := [model for model in self.model if "=" in model and model.partition("=")[0] in self.names()]:
            how = f"give one `model=` for all, or one each without names, in the order {', '.join(self.names())}"
            raise UsageError(f"model is {by_name[0]!r}; {how}")
        for owner in (name.rpartition(".")[0] for name in self.option):
            if owner and owner not in self.names():
                raise UsageError(nearest("agent among the options:", owner, self.names()))
        approvable = [name for agent in self.approvable() for name in (agent, self.role_of(agent))]
        for described, chosen, known in (
            ("agent", self.human, self.names()),
            ("act, agent or role to approve:", self.approve, [*self.effects, *self.acts, *approvable]),
        ):
            if (unknown := next((name for name in chosen if name not in known), None)) is not None:
                raise UsageError(nearest(described, unknown, known))
        return self


AnySettings = TypeVar("AnySettings", bound=Settings)
