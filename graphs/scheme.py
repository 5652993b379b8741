"""The record of a scheme: all that command line, Studio, transcripts, drawings and symmetry need to know about it.

Each scheme has one, in its own file, which imports neither torch nor langgraph, so that help is fast. Another package
declares its record as an entry point of "sottovoce.schemes"; `SCHEMES.register` adds one in code.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from typing_extensions import TypedDict

from sottovoce.core.any_types import AnyState, JSONValue, Unimported
from sottovoce.core.errors import NotInstalled, RequestError, UsageError, nearest
from sottovoce.core.registry import Registry
from sottovoce.core.trust import Allow
from sottovoce.graphs.served import SERVER, client_settings, offered
from sottovoce.nodes.settings import Settings

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.graph import StateGraph
    from langgraph.graph.state import CompiledStateGraph

    from sottovoce.channels.message import Message
    from sottovoce.environments import Split
    from sottovoce.nodes.context import GivenModels
    from sottovoce.nodes.question import Question
    from sottovoce.nodes.watch import Watch

NAMES = (
    "debate",
    "mad",
    "reconcile",
    "cmd",
    "madra",
    "react",
    "ia",
    "brief",
    "pipeline",
    "single",
    "self_consistency",
    "whodunit",
    "govsim",
    "codegen",
)
"""The bundled schemes: each is a file in this folder with its record, `SCHEME`."""
SPELLED = re.compile("[a-z][a-z0-9_]*")
"""The pattern of a scheme's name."""
State = Mapping[str, AnyState]
Graph: TypeAlias = "StateGraph[AnyState, AnyState, AnyState, AnyState]"


class GraphInputs(TypedDict, total=False):
    """Arguments of a graph besides its settings."""

    models: GivenModels
    """Any chat models, one for all agents or by agent name; None loads the models that the settings name."""
    store: Unimported
    """A `PayloadStore` for the payloads of messages; None is the default folder."""
    watch: Watch | str | None
    """A watch that judges every message before it is published, or its name in `MONITORS`."""
    allow: Allow | None
    """Names that a run's context or state may use in addition to bundled ones, by setting; each with its value."""


@dataclass(frozen=True)
class Games:
    """The games of a scheme that plays a world: a run's questions, drawn from a seed or stored in files."""

    samples: Collection[str]
    """The names of the games that --sample takes."""
    draw: Callable[[int, AnyState, int, Split | None], list[Question]]
    """Draws the first n games of a seed with the settings, of a split or of all; each has a solution."""
    read: Callable[[Path, AnyState], Question] | None = None
    """Reads the game of a file; None if games are not stored in files."""
    most: Mapping[str, int] = field(default_factory=dict)
    """Maximum number of different games of a seed, by name; names that are missing have no limit."""


@dataclass(frozen=True)
class Scheme:
    """The record of one scheme."""

    name: str
    settings: type[Settings]
    """The scheme's settings; the first line of their docstring describes the scheme in one sentence."""
    create: Callable[..., AnyState]
    """`create(settings, models=..., store=..., watch=...)` builds the graph, uncompiled."""
    answers: tuple[str, ...] = ("answer", "revise")
    """The acts in which an agent states its own answer; messages of other acts are heard but never counted."""
    headings: Mapping[str, str] = field(default_factory=dict)
    """Headings of transcripts by act, with {round} from 1; other acts have the heading "Round {round}"."""
    sample: str = "arithmetic"
    """The samples to ask if no question is given."""
    games: Games | None = None
    """Its games, if it plays a world; it then asks no other samples."""
    unrolls: str = ""
    """Why its calls are not known before they are made; empty if they are."""
    manner: Callable[[AnyState], str] | None = None
    """Describes a discussion with given settings, in the paper's words; None if agents and rounds describe it."""
    shares: frozenset[str] = frozenset()
    """The measures of its decisions that are shares or grades in [0, 1]; others may be any number."""
    truth: Callable[[Message], str] | None = None
    """Returns the class of error in a message, from the truth that a world knows, or "none"."""
    shows: str = ""
    """A description of what its agents do in a first discussion, in a clause."""
    first: Mapping[str, JSONValue] = field(default_factory=dict)
    """The sample and the settings of a first discussion, which a small model ends in a minute or two with sense.

    They are used on the command line where neither a model nor a question is chosen, each unless it is set.
    """
    prompts: Path | None = None
    """A folder of the scheme's own prompt files: `speak.md` is the prompt `NAME/speak`, which packs can replace."""

    def __post_init__(self) -> None:
        """Refuse a name that cannot be part of a command, a file and a module.

        Raises:
            UsageError: the name does not match the pattern.
        """
        if not SPELLED.fullmatch(self.name):
            raise UsageError(
                f"a scheme's name is {self.name!r}; expected lowercase letters, digits and _, as in town_hall"
            )

    @property
    def command(self) -> str:
        """The scheme's name on a command line."""
        return self.name.replace("_", "-")

    @property
    def summary(self) -> str:
        """The scheme's description in one sentence."""
        return (self.settings.__doc__ or "").strip().partition("\n")[0]

    @property
    def own_prompts(self) -> Mapping[str, Path]:
        """The scheme's folder of prompt files, by the scheme's name. It is empty if the scheme has none."""
        return {self.name: self.prompts} if self.prompts else {}

    def heading(self, act: str, round: int) -> str:
        """Return the heading of an act's messages in a round (0-based)."""
        return self.headings.get(act, "Round {round}").format(round=round + 1)

    def make_graph(self, config: RunnableConfig) -> CompiledStateGraph[Any, Any, Any, Any]:
        """Return the compiled graph for an assistant's settings; no model is loaded. Errors: see `served`."""
        graph: CompiledStateGraph[Any, Any, Any, Any] = self.served(config).compile(name=self.name)
        return graph

    def served(self, config: RunnableConfig) -> Graph:
        """Return the uncompiled graph for a client's settings, if the server's configuration allows them.

        Keys that the server itself adds to the configuration are ignored.

        Raises:
            RequestError: a setting is wrong or unknown, or names something that this server does not offer.
        """
        built: Settings = self.settings()
        allow: Allow = {}
        try:
            if chosen := os.environ.get(SERVER):
                kinds = {each.name: each.settings for each in (*schemes(), self)}
                built, allow = offered(Path(chosen), self.name, kinds)
            settings = client_settings(config.get("configurable") or {}, built, allow)
            graph: Graph = self.create(settings, allow=allow)
        except UsageError as error:
            raise RequestError(str(error)) from error
        return graph


SCHEMES: Registry[Scheme] = Registry(
    "scheme", "sottovoce.schemes", {name: f"sottovoce.graphs.{name}:SCHEME" for name in NAMES}
)
"""The records by name: bundled ones, then those that packages declare or programs register."""


def scheme(name: str) -> Scheme:
    """Return a scheme by name. Dashes and underscores are equivalent.

    Raises:
        UsageError: there is no such scheme, or the package that provides it is broken.
    """
    key = name.replace("-", "_")
    if key not in SCHEMES:
        raise NotInstalled(nearest("scheme", name, SCHEMES.names()), f"scheme {name!r}")
    found: object = SCHEMES[key]  # a package may declare anything
    if not isinstance(found, Scheme):
        raise UsageError(f"scheme {key!r} is of type {type(found).__name__}; expected the package's `Scheme` record")
    if found.name != key:
        raise UsageError(
            f"scheme {key!r} calls itself {found.name!r}; give the record and the entry point the same name"
        )
    return found


def record_of(settings: Settings) -> Scheme:
    """Return the scheme that has these settings.

    Raises:
        UsageError: no scheme has them.
    """
    for name in SCHEMES:  # bundled ones first: their settings load no other package
        if (found := scheme(name)).settings is type(settings):
            return found
    raise UsageError(f"no scheme has the settings {type(settings).__name__}; register its record in SCHEMES")


def schemes() -> list[Scheme]:
    """Return all schemes: bundled ones in their order, then others.

    Raises:
        UsageError: a package that provides one is broken.
    """
    return [scheme(name) for name in SCHEMES]


def shipped() -> list[Scheme]:
    """Return the bundled schemes; nothing of other packages is loaded."""
    return [scheme(name) for name in NAMES]
