"""CMD, the Conquer-and-Merge discussion (arXiv 2402.18272): groups, a vote, and a secretary for ties.

Figure 3: agents discuss in groups, round by round. Each agent hears its own group in full, and only a tally of the
other groups. After R rounds all vote. On a tie the secretary decides, or each group sends a representative to the next
level.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Unpack

from pydantic import Field, model_validator

from sottovoce.agents.ask import Ask
from sottovoce.channels.message import Message, MessageRef, Turn
from sottovoce.core.bounds import Agents, Rounds
from sottovoce.core.errors import UsageError
from sottovoce.core.event_loop import off_loop
from sottovoce.core.text import counted
from sottovoce.graphs.scheme import Graph, GraphInputs, Scheme, State
from sottovoce.nodes.decide import decided, is_tie, last_votes, leading, viewpoint_slots, viewpoints, vote, votes_of
from sottovoce.nodes.prompt_builder import PromptBuilder, own_turn
from sottovoce.nodes.say import say_answer
from sottovoce.nodes.secretary import SECRETARY, Reading, by_secretary, secretary
from sottovoce.nodes.settings import Model
from sottovoce.nodes.shared_settings import Voting
from sottovoce.nodes.state import RESTORED, Decision, Discussion, Update, Vote, rounds_of, said

if TYPE_CHECKING:
    from sottovoce.nodes.agent import Agent
    from sottovoce.nodes.context import RunContext

LARGEST = 3


class CMD(Voting):
    """Groups discuss, and hear only tallies of others (CMD).

    A group hears how many members of other groups hold which view (arXiv 2402.18272).
    """

    acts: ClassVar[tuple[str, ...]] = ("answer", "revise", "decide")
    default_temperature: ClassVar[float | None] = 0.25

    model: Model = Field(default=["bundled"])
    agents: Agents = Field(default=6, ge=1, description="Number of agents, in groups of at most three.")
    rounds: Rounds = Field(default=3, ge=1, description="Number of answers of each agent, including the first.")
    secretary: bool = Field(
        default=True,
        description="Let a secretary decide a tie; otherwise groups send representatives to a higher level.",
    )
    representative: Literal["tied", "first", "random"] = Field(
        default="tied",
        description="Agent that a group sends: tied (the first with a tied answer), first (its first agent) or random.",
    )

    def others(self) -> list[str]:
        """Return the secretary, who is asked only at a tie."""
        return [SECRETARY] if self.secretary else []

    def groups(self) -> list[list[str]]:
        """Return the agents in consecutive groups of at most three, as equal as possible."""
        return grouped(self.speakers())

    def edges(self) -> list[tuple[str, str]]:
        """Return edges within groups and to the secretary. Without one, all edges: representatives may meet anybody."""
        if not self.secretary:
            return super().edges()
        within = [(one, other) for group in self.groups() for one in group for other in group if one != other]
        return [*within, *((agent, SECRETARY) for agent in self.speakers())]

    def topology(self) -> tuple[str, ...]:
        """Return the number of agents, and secretary or representatives: each has a node."""
        return *super().topology(), "a secretary" if self.secretary else "representatives"

    @model_validator(mode="after")
    def _sends_whom(self) -> CMD:
        if self.secretary and self.representative != "tied":
            raise UsageError(
                f"representative is {self.representative!r}, but the secretary decides a tie; add `secretary=False`"
            )
        return self


def grouped(agents: Sequence[str]) -> list[list[str]]:
    """Return consecutive groups of at most three, of nearly equal size: 7 are 3, 2 and 2 (CMD, section 3)."""
    number = -(-len(agents) // LARGEST)
    starts = [i * (len(agents) // number) + min(i, len(agents) % number) for i in range(number + 1)]
    return [list(agents[start:end]) for start, end in pairwise(starts)]


Groups = Sequence[Sequence[str]]


class Grouped(Discussion):
    """The state of CMD."""

    groups: Annotated[list[list[str]], RESTORED]
    """The groups of agents that discuss; agents in no group are silent from then on."""
    level: Annotated[int, RESTORED]
    """0-based; how often groups sent representatives."""


def begin(run: RunContext[CMD], state: Grouped) -> Update:
    """Return the first level, with all agents in groups."""
    return {"groups": run.settings.groups(), "level": 0}


# Prompts


def answer_turns(builder: PromptBuilder) -> tuple[Turn, ...]:
    """Return the prompt of the first answer: the question alone."""
    return (*builder.system_turn(*builder.prompts.render("cmd/agent")), Turn("user", builder.full_turn()))


def discuss_turns(
    builder: PromptBuilder, messages: Mapping[str, Message], votes: Sequence[Vote], groups: Groups
) -> tuple[Turn, ...]:
    """Return the question, the agent's last answer, the visible answers of others, and the request for an update.

    O_i = {(v_j, e_j if j is in i's group, else v_j alone) : j != i} (section 3.2): agents of other groups appear only
    in one tally, as the number of agents per viewpoint, without their explanations. Earlier rounds are not shown.
    Agents that were not sent to a higher level are in no group. The rule restricts hearers, not speakers, so
    the viewpoints of these agents are in the tally, as if the agents were one more group.
    """
    mine = next(group for group in groups if builder.agent in group)
    near = [vote for vote in votes if vote["agent"] in mine and vote["agent"] != builder.agent]
    far = [vote for vote in votes if vote["agent"] not in mine]
    left_behind = {vote["agent"] for vote in votes}.difference(*groups)
    heard = {vote["agent"]: MessageRef(messages[vote["agent"]]) for vote in near}
    parts = builder.prompts.render(
        "cmd/discuss",
        groups=len(groups) + bool(left_behind),
        tally=[line for line, _ in viewpoint_slots(builder, [vote for vote in far if vote["answer"] is not None])],
        viewpoints=viewpoint_slots(builder, near, heard),
    )
    own = own_turn(messages[builder.agent])
    return (*answer_turns(builder), own, Turn("system", parts), builder.user("cmd/update"))


# Acts


async def discuss(run: RunContext[CMD], state: Grouped, agent: Agent) -> Update:
    """Return one agent's answer."""
    round = state["round"]
    if not any(agent.name in group for group in state["groups"]):
        return {}
    builder = agent.prompt_builder(state)
    turns = answer_turns(builder)
    if round:
        messages, votes = rounds_of(state, run.answers)[round - 1], await off_loop(votes_of, run, state, round - 1)
        turns = discuss_turns(builder, messages, votes, state["groups"])
    return {"board": await say_answer(run, state, agent, Ask("revise" if round else "answer", turns))}


def last_round(run: RunContext[Any], state: Discussion) -> Reading:
    """Return the messages and votes of the last round."""
    return rounds_of(state, run.answers)[-1], last_votes(run, state)


decide_tie = secretary(last_round)


def send_representatives(run: RunContext[CMD], state: Grouped) -> Update:
    """Let each group send one agent to the next level, which is grouped again (Algorithm 1)."""
    sent = [_representative(run, state, group) for group in state["groups"]]
    return {"level": state["level"] + 1, "groups": grouped(sent)}


def _representative(run: RunContext[CMD], state: Grouped, group: Sequence[str]) -> str:
    policy = run.settings.representative
    if policy == "random":
        return random.Random(run.seed(state, group[0], "representative")).choice(group)
    leaders = {name for viewpoint in leading(viewpoints(last_votes(run, state), state)) for name in viewpoint.agents}
    return next((name for name in group if policy == "tied" and name in leaders), group[0])


def by_vote(run: RunContext[CMD], state: Grouped) -> Decision:
    """Decide by most votes; at a tie by the secretary, or by the first tied answer on the highest level."""
    votes = last_votes(run, state)
    if said(state, SECRETARY, state["round"], ("decide",)) is not None:
        return by_secretary(votes, state)
    best = leading(viewpoints(votes, state))
    why = f"{len(best[0].votes)} of {len(votes)} say {best[0].answer}" if best else ""
    decision = decided("vote", why, best, votes, state)
    level = f" (level {state['level'] + 1})" if state["level"] else ""
    return {**decision, "why": decision["why"] + level}


# The graph


ON_TIE = {"next_round": "rounds left", "secretary": "a tie", "send_representatives": "a tie"}


def after_round(state: State) -> Literal["next_round", "secretary", "decide"]:
    """Continue for R rounds; then ask the secretary if there is a tie."""
    if (state["round"] + 1) % state["settings"]["rounds"]:
        return "next_round"
    return "secretary" if is_tie(state["votes"], state) else "decide"


def after_level(state: State) -> Literal["next_round", "send_representatives", "decide"]:
    """Continue for R rounds on each level. On the highest level, a single group, the first of the tied answers wins."""
    if (state["round"] + 1) % state["settings"]["rounds"]:
        return "next_round"
    is_open = len(state["groups"]) > 1 and is_tie(state["votes"], state)
    return "send_representatives" if is_open else "decide"


def create_cmd(settings: CMD | None = None, **inputs: Unpack[GraphInputs]) -> Graph:
    """Return the uncompiled graph of CMD. Names in `models`: the agents, and "secretary" if there is one."""
    from sottovoce.graphs.frame import Frame  # late, as all that imports langgraph

    settings = CMD.parse(settings)
    frame = Frame(SCHEME, settings, **inputs, rule=by_vote, begin=begin, state=Grouped)
    for number, group in enumerate(settings.groups(), 1):
        for agent in group:  # in parallel, in each round
            frame.graph.add_edge("next_round", agent)
            frame.act(agent, discuss, role=f"group {number}", to="vote")
    if settings.secretary:
        frame.join("vote", frame.step(vote), to=after_round, labels={**ON_TIE, "decide": "no tie"})
        frame.act(SECRETARY, decide_tie, role="secretary", to="decide")
    else:
        frame.join("vote", frame.step(vote), to=after_level, labels={**ON_TIE, "decide": "no tie, or one group"})
        frame.graph.add_node("send_representatives", frame.step(send_representatives))
        frame.graph.add_edge("send_representatives", "next_round")
    return frame.graph


SENT = {"tied": "its first agent with a tied answer", "first": "its first agent", "random": "an agent by lot"}
"""The agent that a group sends to the next level, in words."""


def manner(settings: CMD) -> str:
    """Return a phrase that describes the discussion."""
    held = f"{counted(settings.agents, 'agent')}, {counted(settings.rounds, 'round')}"
    if settings.secretary:
        return f"{held} · at a tie a secretary decides"
    return f"{held} on each level · at a tie each group sends {SENT[settings.representative]}"


SCHEME = Scheme(
    "cmd",
    CMD,
    create_cmd,
    headings={"decide": "The secretary's answer after round {round}"},
    manner=manner,
    shows="two groups do not come to one answer, and a secretary decides",
    first={"sample": "arithmetic/22"},
)
make_graph = SCHEME.make_graph
