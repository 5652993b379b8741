"""Pipeline (LatentMAS, arXiv 2511.20639): agents prepare an answer, mostly without words, and the last one gives it.

Sequential: planner, critic, refiner and judge speak one after another. Hierarchical: specialists work on the question
in parallel, and a summariser hears all of them. In words these are the paper's TextMAS.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Unpack

from sottovoce.core.text import counted
from sottovoce.graphs.scheme import Graph, GraphInputs, Scheme
from sottovoce.settings import Pipeline


def create_pipeline(settings: Pipeline | None = None, **inputs: Unpack[GraphInputs]) -> Graph:
    """Return the uncompiled graph of a pipeline. Names in `models`: the agents, and "judge" or "summariser"."""
    from sottovoce.graphs.runtime.frame import Frame  # late, as all that imports langgraph
    from sottovoce.nodes import pipeline as acts
    from sottovoce.nodes.decide import by_last
    from sottovoce.nodes.setup import close_round

    settings = Pipeline.parse(settings)
    frame = Frame(SCHEME, settings, **inputs, rule=by_last)
    speakers, (last,) = settings.speakers(), settings.others()
    if settings.shape == "sequential":
        frame.graph.add_edge("next_round", speakers[0])
        for agent, following in pairwise([*speakers, last]):
            frame.act(agent, acts.pass_on, role=agent, to=following)
    else:
        frame.join("close_round", close_round, to=last)
        for agent in speakers:  # in parallel
            frame.graph.add_edge("next_round", agent)
            frame.act(agent, acts.contribute, role="specialist", to="close_round")
    frame.act(last, acts.answer, role=last, to="decide")
    return frame.graph


def manner(settings: Pipeline) -> str:
    """Return a phrase that describes the pipeline."""
    if settings.shape == "sequential":
        return "planner, critic, refiner and judge, one after another"
    return f"{counted(settings.agents, 'specialist')} in parallel, then a summariser"


SCHEME = Scheme(
    "pipeline",
    Pipeline,
    create_pipeline,
    answers=("answer",),
    headings={
        "plan": "Plan",
        "critique": "Critique",
        "refine": "Refined plan",
        "contribute": "Contributions",
        "answer": "Answer",
    },
    manner=manner,
    first_options="--sample facts/20 --temperature 0 --max-tokens 60",
)
make_graph = SCHEME.make_graph
