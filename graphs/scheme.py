"""The record of a scheme: all that command line, Studio, transcripts, drawings and symmetry need to know of it.

Each scheme has one, in its own file. It imports neither torch nor langgraph, so that help answers at once. A package of
somebody else's names its record as an entry point of "sottovoce.schemes"; `SCHEMES.register` adds one in code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from typing_extensions import TypedDict

from sottovoce.errors import RequestError, UsageError, choose, nearest
from sottovoce.graphs.served import of_server
from sottovoce.nodes.settings import Settings
from sottovoce.registry import Registry
from sottovoce.trust import Allow, Allowed

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.graph import StateGraph
    from langgraph.graph.state import CompiledStateGraph

    from sottovoce.channels.message import Message
    from sottovoce.nodes.given import Models
    from sottovoce.nodes.watch import Watch

NAMES = (
    "debate",
    "mad",
    "reconcile",
    "cmd",
    "madra",
    "react",
    "ia",
    "single",
    "self_consistency",
    "whodunit",
    "govsim",
    "codegen",
)
"""Each the file of a scheme in this folder, which holds its record as `SCHEME`."""
SPELLED = re.compile("[a-z][a-z0-9_]*")
"""What names a scheme."""
SERVERS = re.compile("^(_|langgraph_|checkpoint_)|_id$|-")
"""Keys of a run's configuration that are LangGraph's and its server's (langgraph-api 0.16), headers among them."""
State = Mapping[str, Any]  # Any: what a router reads of the state, by key
Graph: TypeAlias = "StateGraph[Any, Any, Any, Any]"  # Any: the types of every scheme


class Given(TypedDict, total=False):
    """What a graph may be given besides settings."""

    models: Models
    """Any chat models, one for all agents or by agent name; None makes those that the settings name."""
    store: Any  # Any: a PayloadStore; naming its type would import torch
    """A `PayloadStore` for what lies under the messages; None is the default folder."""
    watch: Watch | str | None
    """Looks at every act before it is published; also by name, as it is registered in `MONITORS`."""
    cached: bool
    """Whether an act that was done before is not done again, where the graph is compiled with a `cache`."""
    allow: Allow | None
    """Names that the context or the state of a run may use, by setting, beside those that ship; each with its value."""


@dataclass(frozen=True)
class Scheme:
    """One scheme."""

    name: str
    settings: type[Settings]
    """Its docstring's first line says in one sentence what the scheme does."""
    create: Callable[..., Any]  # Any: a Graph, or what has its methods
    """`create(settings, models=..., store=..., watch=...)` builds the graph, uncompiled."""
    answers: tuple[str, ...] = ("answer", "revise")
    """The acts that state an answer of the agent's own; what others say is heard and never counted."""
    headings: Mapping[str, str] = field(default_factory=dict)
    """By act: what stands above what is said in it, with {round} from 1; other acts stand under "Round 1"."""
    manner: Callable[[Any], str] | None = None  # Any: its own settings
    """How it is held with given settings, in its paper's words; None where rounds and agents show it."""
    truth: Callable[[Message], str] | None = None
    """What is wrong with a message, by the truth that a world knows: a class of its own naming, or none."""
    prompts: Path | None = None
    """A folder of prompt files of its own: `speak.md` there is the prompt `NAME/speak`, which packs can replace."""

    def __post_init__(self) -> None:
        """Refuse a name that is no part of a command, a file and a module.

        Raises:
            UsageError: says what is expected.
        """
        if not SPELLED.fullmatch(self.name):
            raise UsageError(f"a scheme's name is {self.name!r}; expected small letters, digits and _, as in town_hall")

    @property
    def command(self) -> str:
        """Its name on a command line."""
        return self.name.replace("_", "-")

    @property
    def summary(self) -> str:
        """What it does, in one sentence."""
        return (self.settings.__doc__ or "").strip().partition("\n")[0]

    @property
    def own_prompts(self) -> Mapping[str, Path]:
        """Its folder of prompt files by their first name; empty where it has none."""
        return {self.name: self.prompts} if self.prompts else {}

    def heading(self, act: str, round: int) -> str:
        """What stands above what is said in an act of a round (0-based)."""
        return self.headings.get(act, "Round {round}").format(round=round + 1)

    def make_graph(self, config: RunnableConfig) -> CompiledStateGraph[Any, Any, Any, Any]:
        """For langgraph.json: the compiled graph for an assistant's settings. Loads no model. Errors: see `served`."""
        graph: CompiledStateGraph[Any, Any, Any, Any] = self.served(config).compile(name=self.name)
        return graph

    def served(self, config: RunnableConfig) -> Graph:
        """Return the uncompiled graph for a client's settings, as far as the server's configuration allows them.

        Keys that the server itself adds to the configuration are ignored.

        Raises:
            RequestError: a setting is wrong, there is none of that name, or it names what this server does not offer.
        """
        given = config.get("configurable") or {}
        try:
            own = {name: value for name, value in given.items() if name in self.settings.model_fields}
            for name in given.keys() - own.keys():
                if not SERVERS.search(name):
                    raise UsageError(nearest("setting:", name, self.settings.model_fields))
            built, allow = of_server(self.name, self.settings, _kinds)
            settings = self.settings.model_validate({**built.model_dump(exclude_unset=True), **own})
            Allowed.of(allow, self.settings).check(settings, built)
            graph: Graph = self.create(settings, allow=allow)
        except UsageError as error:
            raise RequestError(str(error)) from error
        return graph


SCHEMES: Registry[Scheme] = Registry(
    "scheme", "sottovoce.schemes", {name: f"sottovoce.graphs.{name}:SCHEME" for name in NAMES}
)
"""The records by name: those that ship, then those that packages bring or programs register."""


def scheme(name: str) -> Scheme:
    """Return a scheme by name; dashes and underscores are the same.

    Raises:
        UsageError: there is no such scheme, or the package that brings it is broken.
    """
    key = name.replace("-", "_")
    if key not in SCHEMES:
        raise UsageError(choose("scheme", name, SCHEMES.names()))
    found: object = SCHEMES[key]  # a package may name anything
    if not isinstance(found, Scheme):
        raise UsageError(f"scheme {key!r} is of type {type(found).__name__}; expected a Scheme, the package's record")
    if found.name != key:
        raise UsageError(f"scheme {key!r} calls itself {found.name!r}; give record and entry point one name")
    return found


def _kinds() -> dict[str, type[Settings]]:
    return {each.name: each.settings for each in schemes()}


def schemes() -> list[Scheme]:
    """Return all schemes: those that ship in their order, then others.

    Raises:
        UsageError: a package that brings one is broken.
    """
    return [scheme(name) for name in SCHEMES]


def shipped() -> list[Scheme]:
    """Return the schemes that ship; none of another package is loaded."""
    return [scheme(name) for name in NAMES]
