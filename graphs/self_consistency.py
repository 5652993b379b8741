"""Self-consistency (Wang et al. 2023): k independent samples of one agent, and the most frequent answer.

This is the Majority@k baseline of Du et al. and CIPHER; as in `single`, every sample has all documents.
"""

from __future__ import annotations

from typing import Unpack

from sottovoce.graphs.scheme import Graph, GraphInputs, Scheme
from sottovoce.settings import SelfConsistency


def create_self_consistency(settings: SelfConsistency | None = None, **inputs: Unpack[GraphInputs]) -> Graph:
    """Return the uncompiled graph of k samples. `inputs`: see `GraphInputs`."""
    from sottovoce.graphs.runtime.frame import Frame  # late, as all that imports langgraph
    from sottovoce.nodes.evidence import with_evidence
    from sottovoce.nodes.say import in_words

    settings = SelfConsistency.parse(settings)
    frame = Frame(SCHEME, settings, **inputs, begin=with_evidence)
    for sample in settings.speakers():
        frame.graph.add_edge("next_round", sample)
        frame.act(sample, in_words, role="sample", to="decide")
    return frame.graph


SCHEME = Scheme("self_consistency", SelfConsistency, create_self_consistency)
make_graph = SCHEME.make_graph
