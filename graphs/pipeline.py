"""Pipeline (LatentMAS, arXiv 2511.20639): agents prepare an answer, mostly without words, and the last one gives it.

Sequential: planner, critic, refiner and judge speak one after another. Hierarchical: specialists work on the question
in parallel, and a summariser hears all of them. In words these are the paper's TextMAS.
"""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar, Literal, Unpack

from pydantic import Field, model_validator

from sottovoce.core.bounds import Agents
from sottovoce.core.errors import UsageError
from sottovoce.core.text import counted
from sottovoce.graphs.scheme import Graph, GraphInputs, Scheme
from sottovoce.nodes.settings import Settings

STAGES = ("planner", "critic", "refiner")
SPECIALISTS = ("calculator", "researcher", "analyst")


class Pipeline(Settings):
    """Agents prepare an answer for the last one (LatentMAS).

    Planner, critic and refiner before a judge, or specialists before a summariser (arXiv 2511.20639).
    """

    acts: ClassVar[tuple[str, ...]] = ("plan", "critique", "refine", "contribute", "answer")
    default_temperature: ClassVar[float | None] = 0.6  # the default of the authors' run.py, with top-p 0.95

    shape: Literal["sequential", "hierarchical"] = Field(
        default="sequential",
        description="sequential (planner, critic, refiner and judge, one after another) or hierarchical (specialists "
        "in parallel, then a summariser).",
    )
    agents: Agents = Field(
        default=3, ge=1, description="Number of specialists of a hierarchical pipeline, not counting the summariser."
    )

    def speakers(self) -> list[str]:
        """Return planner, critic and refiner, or the specialists: calculator, researcher, analyst, specialist_4 ..."""
        if self.shape == "sequential":
            return [*STAGES]
        more = [f"specialist_{number}" for number in range(len(SPECIALISTS) + 1, self.agents + 1)]
        return [*SPECIALISTS[: self.agents], *more]

    def others(self) -> list[str]:
        """Return the agent that answers."""
        return ["judge" if self.shape == "sequential" else "summariser"]

    def edges(self) -> list[tuple[str, str]]:
        """Return edges from each stage to all later ones, or from each specialist to the summariser."""
        names = self.names()
        if self.shape == "hierarchical":
            return [(agent, names[-1]) for agent in self.speakers()]
        return [(speaker, hearer) for place, speaker in enumerate(names) for hearer in names[place + 1 :]]

    def topology(self) -> tuple[str, ...]:
        """Return the shape and the number of agents: each has a node."""
        return self.shape, *super().topology()

    @model_validator(mode="after")
    def _has_its_stages(self) -> Pipeline:
        if self.shape == "sequential" and self.agents != len(STAGES):
            raise UsageError(
                f"agents is {self.agents}, but a sequential pipeline always has {', '.join(STAGES)} and a judge; "
                "leave it out, or use --shape hierarchical"
            )
        return self


def create_pipeline(settings: Pipeline | None = None, **inputs: Unpack[GraphInputs]) -> Graph:
    """Return the uncompiled graph of a pipeline. Names in `models`: the agents, and "judge" or "summariser"."""
    from sottovoce.graphs.frame import Frame  # late, as all that imports langgraph
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
