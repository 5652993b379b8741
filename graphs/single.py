"""Single: one agent answers once, with the documents of all agents. The baseline every scheme is compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sottovoce.graphs.scheme import Scheme
from sottovoce.nodes.settings import Single

if TYPE_CHECKING:
    from sottovoce.graphs.frame import Graph
    from sottovoce.nodes.context import Models
    from sottovoce.nodes.watch import Watch


def create_single(
    settings: Single | None = None, *, models: Models = None, store: Any = None, watch: Watch | str | None = None
) -> Graph:
    """The graph of the single agent, uncompiled. Arguments: see `create_debate`."""
    from sottovoce.graphs.frame import Frame  # late, as all that imports langgraph
    from sottovoce.nodes.answer import answer

    settings = settings or Single()
    (agent,) = settings.speakers()
    frame = Frame(SCHEME, settings, models, store, watch)
    frame.graph.add_edge("next_round", agent)
    frame.act(agent, answer, role="single", to="decide")
    return frame.graph


SCHEME = Scheme("single", Single, create_single)
make_graph = SCHEME.make_graph
