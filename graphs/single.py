"""Single: one agent answers once, with the documents of all agents; the baseline for every scheme."""

from __future__ import annotations

from typing import Unpack

from sottovoce.graphs.scheme import Graph, GraphInputs, Scheme
from sottovoce.settings import Single


def create_single(settings: Single | None = None, **inputs: Unpack[GraphInputs]) -> Graph:
    """Return the uncompiled graph of a single agent. `inputs`: see `GraphInputs`."""
    from sottovoce.graphs.runtime.frame import Frame  # late, as all that imports langgraph
    from sottovoce.nodes.evidence import with_evidence
    from sottovoce.nodes.say import answer

    settings = Single.parse(settings)
    (agent,) = settings.speakers()
    frame = Frame(SCHEME, settings, **inputs, begin=with_evidence)
    frame.graph.add_edge("next_round", agent)
    frame.act(agent, answer, role="single", to="decide")
    return frame.graph


SCHEME = Scheme("single", Single, create_single)
make_graph = SCHEME.make_graph
