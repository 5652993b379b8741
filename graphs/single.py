"""Single: one agent answers once, with the documents of all agents; the baseline for every scheme."""

from __future__ import annotations

from typing import Unpack

from sottovoce.graphs.scheme import Given, Graph, Scheme
from sottovoce.settings import Single


def create_single(settings: Single | None = None, **given: Unpack[Given]) -> Graph:
    """Return the uncompiled graph of a single agent. `given`: see `Given`."""
    from sottovoce.graphs.runtime.frame import Frame  # late, as all that imports langgraph
    from sottovoce.nodes.answer import answer
    from sottovoce.nodes.evidence import with_evidence

    settings = Single.given(settings)
    (agent,) = settings.speakers()
    frame = Frame(SCHEME, settings, **given, begin=with_evidence)
    frame.graph.add_edge("next_round", agent)
    frame.act(agent, answer, role="single", to="decide")
    return frame.graph


SCHEME = Scheme("single", Single, create_single)
make_graph = SCHEME.make_graph
