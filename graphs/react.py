"""The ReAct relay (SDE, arXiv 2506.19209; ReAct, Yao et al. 2022, arXiv 2210.03629).

Agents take turns, one step each: a thought and an action, to which a retriever replies. Each agent reads all
earlier steps, and the page that the last agent opened is still open. The relay ends when an agent finishes;
if none does by the last step, there is no answer.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Unpack

from pydantic import Field

from sottovoce.core.bounds import Agents, Few, Tokens
from sottovoce.graphs.scheme import Graph, GraphInputs, Scheme, State
from sottovoce.nodes.shared_settings import ENCYCLOPEDIA, SEARCHED, Searching


class ReAct(Searching):
    """Agents search and look up in turn (ReAct relay, SDE).

    Each takes one step, until one of them answers.
    """

    acts: ClassVar[tuple[str, ...]] = ("step", "action")
    brief: ClassVar[bool] = True
    shows_documents: ClassVar[bool] = False
    default_temperature: ClassVar[float | None] = 0.0
    spreads_temperature: ClassVar[bool] = False  # SDE sets 0 for CIPHER too (appendix B.2.2)

    agents: Agents = Field(default=7, ge=1, description="Number of agents; they take turns.")
    steps: Few = Field(default=7, ge=1, description="Maximum number of steps of all agents together.")
    step_tokens: Tokens = Field(default=100, ge=1, description="Maximum length of a step, in tokens.")
    library: Annotated[str, SEARCHED] = Field(
        default=ENCYCLOPEDIA,
        description="Library to search: encyclopedia (built in), documents (the question's own), or a retriever "
        " such as bm25:FOLDER or wikipedia.",
    )
    search: Literal["title", "passages"] = Field(
        default="title",
        description="Page that a search opens: title (the page of that title, as in ReAct) or passages (the three best "
        "passages, as in SDE).",
    )
    carry: Literal["latest", "all"] = Field(  # type: ignore[assignment]  # in place of the protocol's option
        default="latest", description="Steps that the protocol carries; others are sent as text: latest or all."
    )


def whose_turn(state: State) -> str:
    """Return the agent of this step: one step each, and the first agent again after the last."""
    return f"agent_{state['round'] % state['settings']['agents'] + 1}"


def another_step(state: Any) -> Literal["next_round", "decide"]:
    """Continue until an agent finishes, or no step is left; a step is a round."""
    from sottovoce.nodes.react import finished

    return "decide" if finished(state) or state["round"] + 1 >= state["settings"]["steps"] else "next_round"


def create_react(settings: ReAct | None = None, **inputs: Unpack[GraphInputs]) -> Graph:
    """Return the uncompiled graph of a relay. Models by agent name may be local or hosted; else see `GraphInputs`."""
    from sottovoce.graphs.frame import Frame  # late, as all that imports langgraph
    from sottovoce.nodes import react as acts

    settings = ReAct.parse(settings)
    frame = Frame(SCHEME, settings, **inputs, rule=acts.by_finish, begin=acts.begin, state=acts.Relay)
    frame.graph.add_conditional_edges("next_round", whose_turn, settings.speakers())
    for agent in settings.speakers():
        frame.act(agent, acts.take_step, to="environment")
    frame.join(
        "environment",
        frame.step(acts.environment),
        to=another_step,
        labels={"next_round": "steps left", "decide": "finished, or last step"},
    )
    return frame.graph


def manner(settings: ReAct) -> str:
    """Return a phrase that describes the relay."""
    return (
        f"{settings.agents} agents in turn, at most {settings.steps} steps · by {settings.search} in {settings.library}"
    )


SCHEME = Scheme(
    "react",
    ReAct,
    create_react,
    sample="world",
    answers=("answer",),
    headings=dict.fromkeys(("step", "action", "observe"), "Step {round}") | {"answer": "Answer in step {round}"},
    manner=manner,
    first_options="--sample world/fact/5 --steps 4",
)
make_graph = SCHEME.make_graph
