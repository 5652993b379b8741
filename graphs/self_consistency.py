"""Self-consistency (Wang et al. 2023): k independent samples of one agent, and the most frequent answer.

The Majority@k baseline of Du et al. and CIPHER; like `single`, every sample has all documents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sottovoce.graphs.scheme import Scheme
from sottovoce.nodes.settings import SelfConsistency

if TYPE_CHECKING:
    from sottovoce.graphs.frame import Graph
    from sottovoce.nodes.context import Models
    from sottovoce.nodes.watch import Watch


def create_self_consistency(
    settings: SelfConsistency | None = None,
    *,
    models: Models = None,
    store: Any = None,
    watch: Watch | str | None = None,
) -> Graph:
    """The graph of k samples, uncompiled. Arguments: see `create_debate`."""
    from sottovoce.graphs.frame import Frame  # late, as all that imports langgraph
    from sottovoce.nodes.answer import in_words

    settings = settings or SelfConsistency()
    frame = Frame(SCHEME, settings, models, store, watch)
    for sample in settings.speakers():
        frame.graph.add_edge("next_round", sample)
        frame.act(sample, in_words, role="sample", to="decide")
    return frame.graph


SCHEME = Scheme("self_consistency", SelfConsistency, create_self_consistency)
make_graph = SCHEME.make_graph
