"""Groups of settings: people, monitors, and the order of all groups in help, forms and files.

Nothing here imports torch or langgraph.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal, get_args, get_origin

from pydantic import Field
from pydantic.fields import FieldInfo

from sottovoce.channels.options import CipherOptions, GraftOptions, StateOptions, ThoughtsOptions
from sottovoce.core.any_types import JSON, JSONValue
from sottovoce.core.bounds import Few
from sottovoce.core.errors import UsageError, nearest
from sottovoce.core.trust import Names, Words
from sottovoce.core.validation import Checked

NOTE = "The last reply looked uncertain and was held back. Check what is known, and say what is certain."
Per = Literal["role", "all", "turn"]


class People(Checked):
    """The agents that people play, and what people approve before it takes effect."""

    human: Annotated[list[str], Words()] = Field(
        default=[],
        description="Agent that a person plays; the person is asked at the terminal, or by an interrupt in a graph.",
    )
    approve: Annotated[list[str], Words()] = Field(
        default=[],
        description="What a person accepts, rewrites or rejects before it takes effect: an act, the messages of an "
        "agent or a role; in worlds also an award, a harvest or the run of a program.",
    )

    acts: ClassVar[tuple[str, ...]] = ("answer", "revise")
    """The acts of its agents, by name."""
    effects: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Effects of acts in its world that cannot be undone, by name, each with a description of the consequence."""

    @property
    def asks_people(self) -> bool:
        """True if a person must be available from the start."""
        return bool(self.human or self.approve)


class Watched(Checked):
    """The monitors that check messages before they are published, and their interventions."""

    watch: Annotated[list[str], Names("monitor", ("random",), numbered=("random",))] = Field(
        default=[],
        description="Monitors that check messages of their role before they are published: files of `monitor train`, "
        "or random:RATE, which triggers at that share of all turns (random: 0.1).",
    )
    intervention: Literal["reset", "rollback", "again", "augment", "mute", "human"] = Field(
        default="reset",
        description="When a monitor triggers: reset (to the last action that cannot be undone), rollback (some rounds "
        "further back), again (ask again), augment (add a note for all agents and ask again), mute (publish nothing), "
        "human (a person plays the agent from then on).",
    )
    cap: Few = Field(default=1, ge=0, description="Maximum number of interventions, counted as `cap_per` says.")
    cap_per: Per | None = Field(
        default=None,
        description="What cap counts: the interventions in each role, all of them together, or those in each turn of "
        "an agent. If not set: by scheme.",
    )
    rounds_back: Few = Field(
        default=1, ge=1, description="For `rollback`: number of rounds to take back, besides the current one."
    )
    note: Annotated[str, Words()] = Field(default=NOTE, description="For `augment`: the note that all agents read.")
    redraw_temperature: float = Field(
        default=0.7,
        ge=0,
        allow_inf_nan=False,
        description="Temperature of replies that an intervention asks for again, if the agent's own is 0. With 0, a "
        "run in which all agents would only repeat themselves is refused.",
    )

    watched_from: ClassVar[int] = 0
    """The first round (0-based) in which monitors check messages."""
    measured_at: ClassVar[str] = "all"
    """The positions of a reply at which uncertainty matters, by name (monitors.positions)."""
    together: ClassVar[str] = ""
    """The act whose messages of one round are checked together; empty if each is checked by itself."""

    def role_of(self, agent: str) -> str:
        """Return the role of an agent for monitors: each monitor serves one role."""
        return agent

    @property
    def capped(self) -> Per:
        """The scope of `cap`."""
        return self.cap_per or "role"


FIRST = (
    *("agents", "rounds", "turns", "months", "steps", "samples"),
    *("protocol", "model", "temperature", "max_tokens", "seed", "settings", "save", "json"),
)
"""The options that most people need, in this order, including those of a run's output."""
OF_SAMPLING = ("top_p", "top_k", "repetition_penalty")
OF_LOADING = ("dtype", "weights", "device", "memory", "thinking", "thinking_markers", "exact")
OF_PROTOCOL = tuple(
    CipherOptions.model_fields | StateOptions.model_fields | ThoughtsOptions.model_fields | GraftOptions.model_fields
)
OF_CONTROL = ("control", "escalate", "escalate_above")
COMPONENTS = ("question_description", "answer_description", "demonstrations", "chain_of_thought")
GROUPS: dict[str, tuple[str, ...]] = {
    "Sampling": (*OF_SAMPLING, "timeout"),
    "Prompts and answers": (
        "system",
        "prompts",
        *COMPONENTS,
        "answer_turn",
        "guide",
        "thinking",
        "thinking_markers",
        "share_thoughts",
    ),
    "Protocol: what messages carry": ("option", "fallback", *OF_CONTROL, *OF_PROTOCOL),
    "Loading models": tuple(name for name in OF_LOADING if not name.startswith("thinking")),
    "People": tuple(People.model_fields),
    "Monitors that watch": tuple(Watched.model_fields),
}
BY_NAME = (
    *("layer_from", "layer_to", "merge", "layer_alpha", "positions", "place", "realign", "partial_at"),
    *("redraw_temperature", "note", "rounds_back", "cap_per", *COMPONENTS, "show_certainty", "show_majority"),
)
"""Settings that papers vary and few people set: files have them, and `--option NAME=VALUE`."""
OWN = "The scheme"
"""The heading of all other settings of a scheme."""
HEADINGS = (OWN, *GROUPS)
"""All headings, in the order of the help."""


def heading(setting: str) -> str | None:
    """Return the heading of a setting, or None for the settings in `FIRST`, which come before all headings."""
    found = next((heading for heading, names in GROUPS.items() if setting in names), OWN)
    return None if setting in FIRST else found


def place(setting: str) -> int:
    """Return the sort key of a setting: the first settings in their order, then the others by heading."""
    name = heading(setting)
    return FIRST.index(setting) if name is None else len(FIRST) + HEADINGS.index(name)


SWITCH = {True: "on", False: "off"}
"""The words that YAML 1.1 reads as booleans: older saved experiments have these."""


class UnknownName(UsageError):
    """An unknown setting; callers add where it was found."""


def named(values: Mapping[JSONValue, JSONValue], fields: Mapping[str, FieldInfo]) -> JSON:
    """Return values by field, as the command line would pass them; null is the default. Raises UnknownName."""
    found = {str(name).replace("-", "_"): value for name, value in values.items()}
    for name in found:
        if name not in fields:
            raise UnknownName(nearest("setting", name, fields))
    return {name: _fitting(value, fields[name]) for name, value in found.items()}


def is_repeated(info: FieldInfo) -> bool:
    """Return True if an option can be repeated: lists, and NAME=VALUE."""
    return get_origin(info.annotation) in (list, tuple, dict)


def _fitting(value: JSONValue, info: FieldInfo) -> JSONValue:
    if value is None:  # null
        return info.get_default(call_default_factory=True)
    if is_repeated(info):
        return value if isinstance(value, (list, dict)) else [value]
    words = get_args(info.annotation) if get_origin(info.annotation) is Literal else ()
    return SWITCH[value] if isinstance(value, bool) and SWITCH[value] in words else value
