"""Self-consistency (Wang et al. 2023): k independent samples of one agent, and the most frequent answer.

This is the Majority@k baseline of Du et al. and CIPHER; as in `single`, every sample has all documents.
"""

from __future__ import annotations

from functools import partial
from typing import Unpack

from pydantic import Field, model_validator

from sottovoce.agents.ask import WORDS
from sottovoce.core.bounds import Samples
from sottovoce.core.errors import UsageError
from sottovoce.graphs.scheme import Graph, GraphInputs, Scheme
from sottovoce.nodes.evidence import with_evidence
from sottovoce.nodes.say import answer
from sottovoce.nodes.settings import Model
from sottovoce.nodes.shared_settings import Alone, Voting


class SelfConsistency(Alone, Voting):
    """The most frequent of one agent's answers (baseline).

    Samples are text under every protocol: a mean embedding leaves nothing to sample.
    """

    model: Model = Field(default=["bundled"])
    samples: Samples = Field(default=5, ge=1, description="Number of samples.")

    def speakers(self) -> list[str]:
        """Return sample_1 .. sample_k."""
        return [f"sample_{i + 1}" for i in range(self.samples)]

    @model_validator(mode="after")
    def _of_one_agent(self) -> SelfConsistency:
        for field in ("model", "temperature", "system"):
            if len(getattr(self, field)) > 1:
                raise UsageError(f"{field} has {len(getattr(self, field))} values; samples are of one agent: set one")
        return self


def create_self_consistency(settings: SelfConsistency | None = None, **inputs: Unpack[GraphInputs]) -> Graph:
    """Return the uncompiled graph of k samples. `inputs`: see `GraphInputs`."""
    from sottovoce.graphs.frame import Frame  # late, as all that imports langgraph

    settings = SelfConsistency.parse(settings)
    frame = Frame(SCHEME, settings, **inputs, begin=with_evidence)
    for sample in settings.speakers():
        frame.graph.add_edge("next_round", sample)
        frame.act(sample, partial(answer, protocol=WORDS), role="sample", to="decide")
    return frame.graph


SCHEME = Scheme(
    "self_consistency",
    SelfConsistency,
    create_self_consistency,
    shows="five samples disagree, and the majority is right",
    first={"sample": "arithmetic/137"},
)
make_graph = SCHEME.make_graph
