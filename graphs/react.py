"""The ReAct relay (SDE, arXiv 2506.19209; ReAct, Yao et al. 2022, arXiv 2210.03629).

Agents take turns, one step each: a thought and an action, which a library answers. Each reads all steps
before its own, and finds the page open that the last one left. Whoever finishes ends it; after the last
step nobody has answered.
"""

from __future__ import annotations

from typing import Any, Literal, Unpack

from sottovoce.graphs.scheme import Given, Graph, Scheme, State
from sottovoce.nodes.settings import ReAct


def whose_turn(state: State) -> str:
    """One step each; after the last agent the first again."""
    return f"agent_{state['round'] % state['settings']['agents'] + 1}"


def another_step(state: Any) -> Literal["next_round", "decide"]:
    """A step is a round: until somebody finishes, or no step is left."""
    from sottovoce.nodes.react import finished

    return "decide" if finished(state) or state["round"] + 1 >= state["settings"]["steps"] else "next_round"


def create_react(settings: ReAct | None = None, **given: Unpack[Given]) -> Graph:
    """The graph of a relay, uncompiled. Models by agent name may be local and hosted; else see `Given`."""
    from sottovoce.graphs.frame import Frame  # late, as all that imports langgraph
    from sottovoce.nodes import react as acts

    settings = ReAct.given(settings)
    frame = Frame(SCHEME, settings, **given, rule=acts.by_finish, begin=acts.begin, state=acts.Relay)
    frame.graph.add_conditional_edges("next_round", whose_turn, settings.speakers())
    for agent in settings.speakers():
        frame.act(agent, acts.take_step, to="environment")
    frame.join(
        "environment",
        acts.environment(frame.contexts),
        to=another_step,
        labels={"next_round": "steps left", "decide": "finished, or last step"},
    )
    return frame.graph


def manner(settings: ReAct) -> str:
    """How the relay is held."""
    return (
        f"{settings.agents} agents in turn, at most {settings.steps} steps · by {settings.search} in {settings.library}"
    )


SCHEME = Scheme(
    "react",
    ReAct,
    create_react,
    answers=("answer",),
    headings=dict.fromkeys(("step", "action", "observe"), "Step {round}") | {"answer": "Answer in step {round}"},
    manner=manner,
)
make_graph = SCHEME.make_graph
