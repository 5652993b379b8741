"""Single: one agent answers once, with the documents of all agents; the baseline for every scheme."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack

from pydantic import Field, model_validator

from sottovoce.core.bounds import Few
from sottovoce.core.errors import UsageError
from sottovoce.graphs.scheme import Graph, GraphInputs, Scheme
from sottovoce.nodes.evidence import with_evidence
from sottovoce.nodes.say import answer
from sottovoce.nodes.settings import Documents, Model
from sottovoce.nodes.shared_settings import Alone


class Single(Alone):
    """One agent answers once, with all documents (baseline)."""

    model: Model = Field(default=["bundled"])
    part: Few | None = Field(
        default=None,
        ge=1,
        description="Read only the documents that the agent of `ia` with this number would be dealt: its baseline.",
    )
    parts: Few = Field(default=2, ge=2, description="For --part: number of agents among whom documents are dealt.")

    def dealt(self, documents: Documents) -> Documents:
        """Return the documents of all agents, a part of them, or none."""
        shown = super().dealt(documents)
        if self.part is None or isinstance(shown, Mapping):
            return shown
        return shown[self.part - 1 :: self.parts]

    @model_validator(mode="after")
    def _is_there(self) -> Single:
        if self.part is not None and self.part > self.parts:
            raise UsageError(f"part is {self.part}; expected 1 to {self.parts}, the number of parts")
        return self


def create_single(settings: Single | None = None, **inputs: Unpack[GraphInputs]) -> Graph:
    """Return the uncompiled graph of a single agent. `inputs`: see `GraphInputs`."""
    from sottovoce.graphs.frame import Frame  # late, as all that imports langgraph

    settings = Single.parse(settings)
    (agent,) = settings.speakers()
    frame = Frame(SCHEME, settings, **inputs, begin=with_evidence)
    frame.graph.add_edge("next_round", agent)
    frame.act(agent, answer, role="single", to="decide")
    return frame.graph


SCHEME = Scheme("single", Single, create_single)
make_graph = SCHEME.make_graph
