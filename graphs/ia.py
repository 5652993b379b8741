"""Information asymmetry (SDE, Tang et al. 2025, arXiv 2506.19209): each agent knows some of the passages.

In each round all agents reply in parallel, to the question and to the others' messages of the previous round. The
first round in which an agent gives a well-formed answer is the last one, and all its agents speak.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Unpack

from pydantic import Field

from sottovoce.core.bounds import Agents, Few, Rounds, Tokens
from sottovoce.graphs.scheme import Graph, GraphInputs, Scheme
from sottovoce.nodes.settings import Documents
from sottovoce.nodes.shared_settings import SEARCHED, Controlled, Searching


class IA(Searching, Controlled):
    """Agents with different passages ask one another (IA, SDE).

    They go on until one of them answers.
    """

    acts: ClassVar[tuple[str, ...]] = ("talk",)
    default_temperature: ClassVar[float | None] = 0.0
    spreads_temperature: ClassVar[bool] = False  # SDE sets 0 for CIPHER too (appendix B.1)

    agents: Agents = Field(
        default=2, ge=2, description="Number of agents; passages are dealt to them in turn, by rank."
    )
    rounds: Rounds = Field(
        default=5, ge=1, description="Maximum number of rounds; the first with an answer in its form is the last."
    )
    max_tokens: Tokens = Field(default=256, ge=1, description="Maximum length of a reply, in tokens.")
    library: Annotated[str | None, SEARCHED] = Field(
        default=None,
        description="Library to search for passages if the question has no documents: encyclopedia, bm25:FOLDER, ...",
    )
    passages: Few = Field(default=6, ge=1, description="Number of passages to retrieve from `library`.")
    score: Literal["formatted", "raw"] = Field(
        default="formatted",
        description="Score if no last reply has an answer in the requested format: formatted (0) or raw (the score of "
        "any readable answer, as in the published code).",
    )

    def dealt(self, documents: Documents) -> Documents:
        """Return the passages dealt to the agents in turn; private documents keep their owners."""
        if isinstance(documents, Mapping):
            return documents
        agents = self.speakers()
        return {agent: documents[place :: len(agents)] for place, agent in enumerate(agents)}


def another_round(state: Any) -> Literal["next_round", "decide"]:
    """Continue until an agent has answered, or no round is left."""
    from sottovoce.nodes.ia import answered

    over = answered(state) or state["round"] + 1 >= state["settings"]["rounds"]
    return "decide" if over else "next_round"


def create_ia(settings: IA | None = None, **inputs: Unpack[GraphInputs]) -> Graph:
    """Return the uncompiled graph of information asymmetry. `inputs`: see `GraphInputs`."""
    from sottovoce.graphs.frame import Frame  # late, as all that imports langgraph
    from sottovoce.nodes import ia as acts
    from sottovoce.nodes.setup import close_round

    settings = IA.parse(settings)
    frame = Frame(SCHEME, settings, **inputs, rule=acts.by_box, begin=acts.begin)
    for agent in settings.speakers():
        frame.graph.add_edge("next_round", agent)
        frame.act(agent, acts.talk, to="close_round")
    frame.join(
        "close_round",
        close_round,
        to=another_round,
        labels={"next_round": "no answer", "decide": "answered, or last round"},
    )
    return frame.graph


def manner(settings: IA) -> str:
    """Return a phrase that describes the discussion."""
    return f"{settings.agents} agents, each with passages of its own, at most {settings.rounds} rounds"


SCHEME = Scheme(
    "ia",
    IA,
    create_ia,
    sample="world",
    answers=("talk",),
    headings={"deal": "Passages"},
    manner=manner,
    first_options="--sample facts/20 --guide on --rounds 2 --max-tokens 48",
)
make_graph = SCHEME.make_graph
