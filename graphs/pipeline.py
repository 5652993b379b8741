"""Pipeline (LatentMAS, arXiv 2511.20639): agents prepare an answer, mostly without words, and the last one gives it.

Sequential: planner, critic, refiner and judge speak one after another. Hierarchical: specialists work on the question
in parallel, and a summariser hears all of them. In words these are the paper's TextMAS: a stage hears all messages
before it (Gen-Verse/LatentMAS, methods/text_mas.py). Of messages without words it hears only the last, as there too:
its sender has read the ones before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Final, Literal, Unpack

from pydantic import Field, model_validator

from sottovoce.agents.ask import Ask
from sottovoce.channels.message import Message, MessageRef, Turn, words
from sottovoce.core.bounds import Agents
from sottovoce.core.errors import UsageError
from sottovoce.core.text import counted
from sottovoce.graphs.scheme import Graph, GraphInputs, Scheme
from sottovoce.nodes.decide import by_last
from sottovoce.nodes.hearing import or_nothing
from sottovoce.nodes.prompt_builder import PromptBuilder
from sottovoce.nodes.say import say, say_answer
from sottovoce.nodes.settings import Settings
from sottovoce.nodes.state import Discussion, Update, rounds_of

if TYPE_CHECKING:
    from sottovoce.nodes.agent import Agent
    from sottovoce.nodes.context import RunContext

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
                "leave it out, or use `shape='hierarchical'`"
            )
        return self


# Acts


ACTS: Final[Mapping[str, str]] = {"planner": "plan", "critic": "critique", "refiner": "refine"}
"""The acts of the stages of a sequential pipeline."""
CONTRIBUTE: Final = "contribute"


async def pass_on(run: RunContext[Pipeline], state: Discussion, agent: Agent) -> Update:
    """Return the message of a stage, which hears the stages before it. It may be without words."""
    builder, spoken = agent.prompt_builder(state), _spoken(run, state)
    request = words(builder.prompts.render(f"pipeline/{ACTS[agent.name]}"))
    ask = Ask(ACTS[agent.name], turns_of(builder, spoken, request), silent=True)
    return {"board": await say(run, state, agent, ask), "turn": state["turn"] + 1}


async def contribute(run: RunContext[Pipeline], state: Discussion, agent: Agent) -> Update:
    """Return the message of a specialist, which hears nobody. It may be without words."""
    builder = agent.prompt_builder(state)
    request = words(builder.prompts.render("pipeline/contribute", role=agent.name))
    return {"board": await say(run, state, agent, Ask(CONTRIBUTE, turns_of(builder, [], request), silent=True))}


async def answer(run: RunContext[Pipeline], state: Discussion, agent: Agent) -> Update:
    """Return the answer of the judge or summariser, in words."""
    turns = turns_of(agent.prompt_builder(state), _spoken(run, state))
    return {"board": await say_answer(run, state, agent, Ask("answer", turns, protocol="nl"))}


def turns_of(builder: PromptBuilder, spoken: Sequence[Message], request: str | None = None) -> tuple[Turn, ...]:
    """Return messages without words, then a full turn with the others; it ends with the request, or the answer's form.

    Of the stages without words only the last one is heard.
    """
    quoted = [(message.agent.replace("_", " "), MessageRef(message)) for message in spoken if message.text]
    wordless = [MessageRef(message) for message in spoken if not message.text]
    if any(message.act != CONTRIBUTE for message in spoken):
        wordless = wordless[-1:]
    said = builder.prompts.render("pipeline/heard", statements=quoted, final=request is None)
    return (*builder.system_turn(), Turn("user", (*wordless, *builder.full_turn(request, discussion=said))))


def _spoken(run: RunContext[Pipeline], state: Discussion) -> list[Message]:
    """Return the messages of the agents before the last, in the order of the settings."""
    spoken = rounds_of(state, (*ACTS.values(), CONTRIBUTE))[-1]
    return [or_nothing(spoken[agent]) for agent in run.settings.speakers() if agent in spoken]


# The graph


def create_pipeline(settings: Pipeline | None = None, **inputs: Unpack[GraphInputs]) -> Graph:
    """Return the uncompiled graph of a pipeline. Names in `models`: the agents, and "judge" or "summariser"."""
    from sottovoce.graphs.frame import Frame  # late, as all that imports langgraph
    from sottovoce.nodes.setup import close_round

    settings = Pipeline.parse(settings)
    frame = Frame(SCHEME, settings, **inputs, rule=by_last)
    speakers, (last,) = settings.speakers(), settings.others()
    if settings.shape == "sequential":
        frame.graph.add_edge("next_round", speakers[0])
        for agent, following in pairwise([*speakers, last]):
            frame.act(agent, pass_on, role=agent, to=following)
    else:
        frame.join("close_round", close_round, to=last)
        for agent in speakers:  # in parallel
            frame.graph.add_edge("next_round", agent)
            frame.act(agent, contribute, role="specialist", to="close_round")
    frame.act(last, answer, role=last, to="decide")
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
    shows="a planner, a critic and a refiner prepare an answer, and a judge gives it",
    first={"sample": "briefing/2", "temperature": 0, "max_tokens": 48},
)
make_graph = SCHEME.make_graph
