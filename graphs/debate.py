"""Debate (Du et al. 2023; with CIPHER, arXiv 2310.06272, and SDE, arXiv 2506.19209).

All agents first answer alone. In every further round each agent hears the others' answers of the
previous round and answers again. There is no early stop: after the last round a rule decides, by
majority, by the lowest temperature or by the average. Agents hear nothing of their own round, so they run in parallel.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, ClassVar, Literal, Unpack

from pydantic import Field, model_validator

from sottovoce.agents.ask import Ask
from sottovoce.channels.message import Message, Turn
from sottovoce.core.bounds import Agents, Rounds
from sottovoce.core.errors import UsageError
from sottovoce.graphs.scheme import Graph, GraphInputs, Scheme, State
from sottovoce.nodes.decide import decided, last_votes, majority
from sottovoce.nodes.hearing import others_of
from sottovoce.nodes.say import say, say_answer
from sottovoce.nodes.settings import Model
from sottovoce.nodes.shared_settings import Controlled, Order, Voting
from sottovoce.nodes.state import Decision, Discussion, Update, Vote, rounds_of
from sottovoce.prompts import kinds

if TYPE_CHECKING:
    from sottovoce.nodes.agent import Agent
    from sottovoce.nodes.context import RunContext

FinalRule = Literal["majority", "lowest_temperature", "average"]
Role = Literal["debater", "expert", "dummy"]


class Debate(Controlled, Voting):
    """Agents answer, read each other, answer again (Du, 2023)."""

    acts: ClassVar[tuple[str, ...]] = ("answer", "revise", "summarise")

    model: Model = Field(default=["bundled"])
    agents: Agents = Field(default=2, ge=1, description="Number of agents.")
    rounds: Rounds = Field(default=3, ge=1, description="Number of rounds, including the first.")
    shape: Literal["history", "fresh"] = Field(
        default="history",
        description="Prompt of later rounds: history (a growing chat) or fresh (one prompt for each round, as in "
        "CIPHER).",
    )
    order: Order | None = Field(
        default=None,
        description="Repeat an agent's own answer after (others_first) or before (own_first) the others'. "
        "If not set: do not repeat it in a history; others_first in a fresh prompt.",
    )
    summarise: Literal["none", "each", "shared"] = Field(
        default="none",
        description="Summaries that agents read instead of answers: each (every agent sums up the others' answers) "
        "or shared (one summary of all answers).",
    )
    role: list[Role] = Field(
        default=[],
        description="Role of an agent: debater, expert (states the question's solution; samples of arithmetic have it) "
        "or dummy (states that of another question). One for all agents, or one each. If not set: debater.",
    )
    rule: FinalRule | None = Field(
        default=None,
        description="Decision rule: majority, lowest_temperature (the answer of that agent) or average (no answer; "
        "the share of right ones is the score). If not set: the protocol's.",
    )
    last_round: Literal["all", "deciding"] = Field(
        default="all",
        description="Agents that speak in the last round: all, or deciding (only the one with the lowest temperature).",
    )

    def topology(self) -> tuple[str, ...]:
        """Return the number of agents, and whether there is a shared summary: each has a node."""
        return *super().topology(), f"{'a' if self.summarise == 'shared' else 'no'} shared summary"

    def roles(self) -> dict[str, Role]:
        """Return the role of each agent."""
        return dict(zip(self.speakers(), self.per_agent("role") or ["debater"] * self.agents, strict=True))

    def needs(self) -> dict[str, str]:
        """Return the solution for experts and the decoys for dummies (CIPHER's bounds) or for the control."""
        said = {"expert": ("solution", "is an expert"), "dummy": ("decoys", "is a dummy")}
        wanted = {name: said[part] for name, part in self.roles().items() if part in said}
        return super().needs() | {field: f"agent {name!r} {what}" for name, (field, what) in wanted.items()}

    @model_validator(mode="after")
    def _fits(self) -> Debate:
        self.per_agent("role")
        if self.last_round == "deciding" and self.rule in ("majority", "average"):
            raise UsageError(
                f"the rule {self.rule!r} reads all agents, but with last_round 'deciding' only one of them speaks; "
                "use `rule='lowest_temperature'` or `last_round='all'`"
            )
        if self.summarise != "none" and (self.shape == "fresh" or self.order is not None):
            raise UsageError(
                "summaries replace the others' answers in a chat; "
                "use `summarise=` with `shape='history'` and without `order=`"
            )
        if self.agents == 1 and self.summarise != "none":
            raise UsageError("a debate of one agent has no answers to summarize; use `agents=2` or more")
        if self.control != "none" and (self.agents == 1 or self.summarise == "shared"):
            raise UsageError(
                f"the control {self.control!r} replaces messages that agents read from one another; "
                "use it with `agents=2` or more and without `summarise='shared'`"
            )
        return self


# Acts


SUMMARISER = "summariser"
"""The author of the shared summary, which uses the first agent's model."""
SUMMARISE = ("summarise",)


async def take_turn(run: RunContext[Debate], state: Discussion, agent: Agent) -> Update:
    """Return one debater's message of the round: the first answer, or a revision of it."""
    round, role = state["round"], run.settings.roles()[agent.name]
    if not _speaks(run, agent.name, round):
        return {}
    if role != "debater":
        # Text without a payload (CIPHER's bounds), drawn again at each call, as in the published code.
        texts = [state["solution"]] if role == "expert" else state["decoys"]  # `setup` checked that they exist
        text = random.Random(run.seed(state, agent.name, role)).choice(texts)
        return {"board": [run.message(state, agent.name, "revise" if round else "answer", text, source=role)]}
    is_read = _is_read(run, agent.name, round)
    if not round:
        builder, several = agent.prompt_builder(state), run.settings.rounds > 1
        first = Ask("answer", builder.first_turns() if several else builder.independent())
        if builder.knows_a_part and several:  # facts, and the answer in a later round
            return {"board": await say(run, state, agent, first)}
        return {"board": await say_answer(run, state, agent, first, is_read=is_read)}
    summary: list[Message] = []
    if run.settings.summarise == "each":
        before = rounds_of(state, run.answers)[round - 1]
        summary = await summary_of(run, state, agent, others_of(run, state, before, agent))
    ask = Ask("revise", _later_turns(run, state, agent, summary))
    return {"board": [*summary, *await say_answer(run, state, agent, ask, is_read=is_read)]}


async def summarise(run: RunContext[Debate], state: Discussion, agent: Agent) -> Update:
    """Return one shared summary of the round."""
    spoken = rounds_of(state, run.answers)[-1]
    answers = [spoken[name] for name in run.settings.speakers() if name in spoken]
    return {"board": await summary_of(run, state, agent, answers)}


async def summary_of(
    run: RunContext[Debate], state: Discussion, agent: Agent, messages: list[Message]
) -> list[Message]:
    """Return `agent`'s summary of messages, which it hears by the protocol. The summary is text."""
    reader = run.agent(run.settings.speakers()[0]) if agent.name == SUMMARISER else agent
    turns = reader.prompt_builder(state).summarise(messages)
    return await say(run, state, agent, Ask(SUMMARISE[0], turns, protocol="nl"))


def deciding_agents(run: RunContext[Debate]) -> list[str]:
    """Return the debaters with the lowest temperature. The first of them decides (CIPHER)."""
    debaters = [name for name, role in run.settings.roles().items() if role == "debater"]
    found = {name: run.agent(name).temperature for name in debaters or run.settings.speakers()}
    temperatures = {name: float("inf") if each is None else each for name, each in found.items()}
    return [name for name, each in temperatures.items() if each == min(temperatures.values())]


def _speaks(run: RunContext[Debate], agent: str, round: int) -> bool:
    """Return True if an agent speaks in a round. In the last, one may speak alone: n(R - 1) + 1 replies (CIPHER)."""
    if run.settings.last_round == "all" or round < run.settings.rounds - 1:
        return True
    return agent == deciding_agents(run)[0]


def _is_read(run: RunContext[Debate], agent: str, round: int) -> bool:
    """Return True if the rule reads an agent's answer of this round, or hearers choose by the round's votes."""
    if run.settings.escalate == "disagreement":
        return True
    last = round == run.settings.rounds - 1
    return last and (rule_of(run) != "lowest_temperature" or agent == deciding_agents(run)[0])


def _later_turns(run: RunContext[Debate], state: Discussion, agent: Agent, summary: list[Message]) -> tuple[Turn, ...]:
    """Return the prompt of a revision: the agent's answers and the others' messages, by the settings."""
    settings, builder = run.settings, agent.prompt_builder(state)
    rounds = rounds_of(state, run.answers)[:-1]
    own = [spoken[agent.name] for spoken in rounds]
    if settings.summarise != "none":  # an agent reads its own summaries in the round after
        by = SUMMARISER if settings.summarise == "shared" else agent.name
        summaries = [spoken[by] for spoken in rounds_of(state, SUMMARISE) if by in spoken]
        return builder.history_of_summaries(own, [*summaries, *summary])
    others = [others_of(run, state, spoken, agent) for spoken in rounds]
    # After a round that shared facts, the history lists them, whatever the shape.
    if settings.shape == "fresh" and not (len(rounds) == 1 and builder.lists_facts(settings.order)):
        return builder.fresh(own[-1], others[-1], settings.order)
    return builder.history(own, others, settings.order)


def rule_of(run: RunContext[Debate]) -> str:
    """Return the rule in the settings, else the rule of the only agent of the last round, else the protocol's."""
    if run.settings.rule is not None:
        return run.settings.rule
    return "lowest_temperature" if run.settings.last_round == "deciding" else run.final_rule()


def by_rule(run: RunContext[Debate], state: Discussion) -> Decision:
    """Decide by the rule; the messages of experts and dummies are shown but do not count."""
    votes, roles, rule = last_votes(run, state), run.settings.roles(), rule_of(run)
    debaters = [vote for vote in votes if roles[vote["agent"]] == "debater"] or votes
    if rule == "lowest_temperature":
        decision = by_agent(debaters, deciding_agents(run), state)
    else:
        decision = average(debaters, state) if rule == "average" else majority(debaters, state)
    read = {vote["agent"]: vote for vote in decision["votes"]}
    # The messages of experts and dummies are prescribed: their votes are shown but do not count.
    shown: list[Vote] = [read.get(vote["agent"], {**vote, "counts": False}) for vote in votes]
    return {**decision, "votes": shown}


def by_agent(votes: list[Vote], agents: list[str], state: Discussion) -> Decision:
    """Decide by the answer of the first agent with the lowest temperature (CIPHER)."""
    agent = agents[0]
    shown: list[Vote] = [{**vote, "counts": vote["agent"] == agent} for vote in votes]
    answer = next((vote["answer"] for vote in shown if vote["counts"]), None)
    best = "has" if len(agents) == 1 else "is the first with"
    why = f"{agent} {best} the lowest temperature"
    why += "" if answer is not None else ", and its answer could not be read"
    return decided("lowest_temperature", why, [], shown, state, (answer,))


def average(votes: list[Vote], state: Discussion) -> Decision:
    """Return a decision without an answer: the score is the share of agents that are right (SDE)."""
    decision = decided("average", "every agent's answer counts by itself", [], votes, state, (None,))
    if state.get("target") is None:
        return decision
    right = [kinds.right(vote["answer"], state) for vote in votes]
    return {**decision, "score": sum(right) / len(right)}


# The graph


LAST_OR_NOT = {"next_round": "rounds left", "summarise": "rounds left", "decide": "last round"}
"""The reason for each edge, as drawings show it."""


def another_round(state: State) -> Literal["next_round", "decide"]:
    """Continue until all rounds are over; the independent first answers are one of them."""
    return "next_round" if state["round"] + 1 < state["settings"]["rounds"] else "decide"


def summary_or_end(state: State) -> Literal["summarise", "decide"]:
    """Summarize each round except the last."""
    return "summarise" if another_round(state) == "next_round" else "decide"


def create_debate(settings: Debate | None = None, **inputs: Unpack[GraphInputs]) -> Graph:
    """Return the uncompiled graph of a debate.

    Args:
        settings: The defaults of its runs; the graph has nodes for their number of agents.
        inputs: `models`, `store` and `watch`, see `GraphInputs`.
    """
    from sottovoce.graphs.frame import Frame  # late, as all that imports langgraph
    from sottovoce.nodes.setup import close_round

    settings = Debate.parse(settings)
    frame = Frame(SCHEME, settings, **inputs, rule=by_rule)
    for agent in settings.speakers():
        frame.graph.add_edge("next_round", agent)
        frame.act(agent, take_turn, role="debater", to="close_round")
    if settings.summarise == "shared":
        frame.join("close_round", close_round, to=summary_or_end, labels=LAST_OR_NOT)
        frame.act("summarise", summarise, agent=SUMMARISER, role="summariser", to="next_round")
    else:
        frame.join("close_round", close_round, to=another_round, labels=LAST_OR_NOT)
    return frame.graph


SCHEME = Scheme("debate", Debate, create_debate, headings={"summarise": "Summaries, round {round}"})
make_graph = SCHEME.make_graph
