"""Debate (Du et al. 2023; with CIPHER, arXiv 2310.06272, and SDE, arXiv 2506.19209).

All agents first answer alone. In every further round each agent hears the others' answers of the
previous round and answers again. After the last round a rule decides, by majority, by the lowest temperature or by the
average. Agents hear nothing of their own round, so they run in parallel. Settings add what later papers do: see
`debate_rules`.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, ClassVar, Literal, Unpack

from pydantic import Field, model_validator

from sottovoce.agents.ask import Ask
from sottovoce.channels.message import Message, Turn
from sottovoce.core.bounds import Agents, Rounds
from sottovoce.core.errors import UsageError
from sottovoce.core.event_loop import off_loop
from sottovoce.graphs import debate_rules as rules
from sottovoce.graphs.scheme import Graph, GraphInputs, Scheme, State
from sottovoce.nodes.decide import decided, majority, viewpoints
from sottovoce.nodes.hearing import others_of
from sottovoce.nodes.say import say, say_answer
from sottovoce.nodes.settings import Model
from sottovoce.nodes.shared_settings import Controlled, Order, Voting
from sottovoce.nodes.state import Decision, Discussion, Update, Vote, rounds_of
from sottovoce.prompts import kinds

if TYPE_CHECKING:
    from sottovoce.nodes.agent import Agent
    from sottovoce.nodes.context import RunContext
    from sottovoce.nodes.prompt_builder import PromptBuilder

FinalRule = Literal[
    "majority", "lowest_temperature", "average", "plurality", "approval", "ranked", "cumulative", "judge"
]
Role = Literal["debater", "expert", "dummy"]
CENTER = "center"
"""The rule of a star, unless another one is set: the answer of the first agent, which hears all."""
DAR = "paper/dar"
"""The prompt pack whose set-up shows certainty and majority."""


class Debate(Controlled, Voting):
    """Agents answer, read each other, answer again (Du, 2023)."""

    acts: ClassVar[tuple[str, ...]] = (
        *("answer", "revise", "summarise"),
        *("write_personas", "moderate", "vote", "judge"),
    )

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
    hears: rules.Hears = Field(
        default="all",
        description="Whom agents hear: all others, ring (their two neighbours) or star (the first agent hears all, the "
        "others hear only it; its answer decides).",
    )
    retain: rules.Retain = Field(
        default="all",
        description="Messages of a round that are heard: all, certain (with the most probable tokens), agreeing or "
        "differing (with the majority answer), or diverse (chosen by a moderator).",
    )
    retain_share: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="Share of the messages that --retain certain keeps, below 1, or their number. If not set: 0.5.",
    )
    stop: rules.Stop = Field(
        default="never",
        description="End after a round in which this many agents give one answer: majority (more than half), "
        "two_thirds or all; or never before the last round.",
    )
    persona: Literal["none", "written"] = Field(
        default="none",
        description="Roles of agents: none (but those of --system), or written by one request before the first round.",
    )
    show_certainty: bool | None = Field(
        default=None,
        description="Show the mean negative log-likelihood of its tokens behind each message. "
        "If not set: only with the prompts paper/dar.",
    )
    show_majority: bool | None = Field(
        default=None,
        description="Show the majority answer of the last round before the question. "
        "If not set: only with the prompts paper/dar.",
    )
    rule: FinalRule | None = Field(
        default=None,
        description="Decision rule: majority, lowest_temperature (the answer of that agent), average (no answer; the "
        "share of right ones is the score), votes at the end (plurality, approval, ranked, cumulative) or judge. "
        "If not set: the first agent's answer in a star, else the protocol's rule.",
    )
    last_round: Literal["all", "deciding"] = Field(
        default="all",
        description="Agents that speak in the last round: all, or deciding (only the one with the lowest temperature).",
    )

    def others(self) -> list[str]:
        """Return the moderator that chooses messages, and the judge."""
        chooses, decides = self.retain == "diverse", self.rule == rules.JUDGE
        return [rules.MODERATOR] * chooses + [rules.JUDGE] * decides

    def edges(self) -> list[tuple[str, str]]:
        """Return the pairs (speaker, hearer). Moderator and judge hear all agents."""
        order = {name: place for place, name in enumerate(self.speakers())}
        return [
            (speaker, hearer)
            for speaker, hearer in super().edges()
            if hearer not in order or rules.is_heard(order[speaker], order[hearer], self.agents, self.hears)
        ]

    def topology(self) -> tuple[str, ...]:
        """Return the number of agents, and the acts between rounds, before and after them: each has a node."""
        between = {"shared": "a shared summary"}.get(self.summarise, "no shared summary")
        return (
            *super().topology(),
            "a moderator" if self.retain == "diverse" else between,
            "written roles" if self.persona == "written" else "no written roles",
            "a judge" if self.rule == rules.JUDGE else f"{'' if self.rule in rules.VOTES else 'no '}votes at the end",
        )

    def roles(self) -> dict[str, Role]:
        """Return the role of each agent."""
        return dict(zip(self.speakers(), self.per_agent("role") or ["debater"] * self.agents, strict=False))

    def shows(self, component: Literal["certainty", "majority"]) -> bool:
        """Return True if prompts show the certainty of messages, or the last majority."""
        shown: bool | None = getattr(self, f"show_{component}")
        return self.prompts == DAR if shown is None else shown

    @property
    def reads_certainty(self) -> bool:
        """True if messages are chosen by their certainty, or it is shown."""
        return self.retain == "certain" or self.shows("certainty")

    @property
    def reads_rounds(self) -> bool:
        """True if the answers of every round are read, not only those of the last one."""
        by_votes = self.stop != "never" or self.retain not in ("all", "certain") or self.shows("majority")
        return by_votes or self.escalate == "disagreement"

    def needs(self) -> dict[str, str]:
        """Return the solution for experts and the decoys for dummies (CIPHER's bounds) or for the control."""
        said = {"expert": ("solution", "is an expert"), "dummy": ("decoys", "is a dummy")}
        wanted = {name: said[part] for name, part in self.roles().items() if part in said}
        return super().needs() | {field: f"agent {name!r} {what}" for name, (field, what) in wanted.items()}

    @model_validator(mode="after")
    def _fits(self) -> Debate:
        self.per_agent("role")
        if self.last_round == "deciding" and self.rule not in (None, "lowest_temperature"):
            raise UsageError(
                f"the rule {self.rule!r} reads all agents, but with last_round 'deciding' only one of them speaks; "
                "use `rule='lowest_temperature'` or `last_round='all'`"
            )
        chosen = self.hears != "all" or self.retain != "all" or self.shows("certainty") or self.shows("majority")
        if self.summarise != "none" and (self.shape == "fresh" or self.order is not None or chosen):
            raise UsageError(
                "summaries replace the others' answers in a chat; use `summarise=` with `shape='history'`, without "
                "`order=`, `hears=` and `retain=`, and with `show_certainty=False` and `show_majority=False`"
            )
        if self.retain != "all" and self.agents < 3:
            raise UsageError(
                f"retain is {self.retain!r}, but each of {self.agents} agents hears at most one other, and nothing is "
                "left out; use `agents=3` or more"
            )
        if self.retain_share is not None and self.retain != "certain":
            raise UsageError(f"retain_share is {self.retain_share:g}; use it with `retain='certain'`")
        prescribed = [name for name, role in self.roles().items() if role != "debater" or name in self.human]
        if self.reads_certainty and prescribed:
            certain = ["leave out `retain='certain'`"] if self.retain == "certain" else []
            hidden = ["use `show_certainty=False`"] if self.shows("certainty") else []
            raise UsageError(
                f"the certainty of messages is read, but those of {prescribed[0]} have none, since no model writes "
                f"them; {' and '.join([*certain, *hidden])}"
            )
        if "debater" not in self.roles().values() and (self.persona == "written" or self.rule in rules.VOTES):
            found = "persona is 'written'" if self.persona == "written" else f"the rule is {self.rule!r}"
            raise UsageError(f"{found}, but all messages are prescribed; give an agent the role 'debater'")
        if self.hears == "star" and self.rule is None and self.roles()[self.speakers()[0]] != "debater":
            raise UsageError(
                "the first agent of a star decides, but its messages are prescribed; give the role to another agent, "
                "or set a rule, such as `rule='majority'`"
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
    builder, is_read = rules.builder_of(run, state, agent), _is_read(run, agent.name, round)
    if not round:
        first = Ask("answer", builder.first_turns() if run.settings.rounds > 1 else builder.independent())
        if rules.shares_facts(run, state, agent.name):  # and answers in a later round
            return {"board": await say(run, state, agent, first)}
        return {"board": await say_answer(run, state, agent, first, is_read=is_read)}
    summary: list[Message] = []
    if run.settings.summarise == "each":
        before, senders = rounds_of(state, run.answers)[round - 1], rules.senders(run, state, round - 1, agent.name)
        summary = await summary_of(run, state, agent, others_of(run, state, before, agent, senders))
    ask = Ask("revise", await off_loop(_later_turns, run, state, agent, builder, summary))
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
    """Return the debaters with the lowest temperature, or the first agent of a star. The first one decides (CIPHER)."""
    if rule_of(run) == CENTER:
        return run.settings.speakers()[:1]
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
    if run.settings.reads_rounds:
        return True
    last = round == run.settings.rounds - 1
    return last and (rule_of(run) not in ("lowest_temperature", CENTER) or agent == deciding_agents(run)[0])


def _later_turns(
    run: RunContext[Debate], state: Discussion, agent: Agent, builder: PromptBuilder, summary: list[Message]
) -> tuple[Turn, ...]:
    """Return the prompt of a revision: the agent's answers and the others' messages, by the settings."""
    settings = run.settings
    rounds = rounds_of(state, run.answers)[:-1]
    own = [spoken[agent.name] for spoken in rounds]
    if settings.summarise != "none":  # an agent reads its own summaries in the round after
        by = SUMMARISER if settings.summarise == "shared" else agent.name
        summaries = [spoken[by] for spoken in rounds_of(state, SUMMARISE) if by in spoken]
        return builder.history_of_summaries(own, [*summaries, *summary])
    others = [
        others_of(run, state, spoken, agent, rules.senders(run, state, round, agent.name))
        for round, spoken in enumerate(rounds)
    ]
    remarks = {round: rules.remark_on(run, state, round, builder.prompts) for round in range(len(rounds))}
    # After a round that shared facts, the history lists them, whatever the shape.
    if settings.shape == "fresh" and not (len(rounds) == 1 and builder.lists_facts(settings.order)):
        turns = builder.fresh(own[-1], others[-1], settings.order, remarks[len(rounds) - 1])
    else:
        turns = builder.history(own, others, settings.order, remarks)
    return rules.with_certainty(turns, builder.prompts) if settings.shows("certainty") else turns


def rule_of(run: RunContext[Debate]) -> str:
    """Return the rule in the settings, else that of a star or of one agent in the last round, or the protocol's."""
    if run.settings.rule is not None:
        return run.settings.rule
    if run.settings.hears == "star":
        return CENTER
    return "lowest_temperature" if run.settings.last_round == "deciding" else run.final_rule()


def by_rule(run: RunContext[Debate], state: Discussion) -> Decision:
    """Decide by the rule; the messages of experts and dummies are shown but do not count."""
    votes, rule, last = rules.votes_in(run, state, state["round"]), rule_of(run), state["round"] + 1
    debaters = rules.of_debaters(run, votes)
    if rule in ("lowest_temperature", CENTER):
        decision = by_agent(debaters, deciding_agents(run), state, rule)
    elif rule in (*rules.VOTES, rules.JUDGE):
        decision = rules.by_votes(run, state, debaters, rule)
    else:
        decision = average(debaters, state) if rule == "average" else majority(debaters, state)
    if last < run.settings.rounds:
        decision["why"] += f"; ended early, after round {last} of {run.settings.rounds}"
    read = {vote["agent"]: vote for vote in decision["votes"]}
    # The messages of experts and dummies are prescribed: their votes are shown but do not count.
    shown: list[Vote] = [read.get(vote["agent"], {**vote, "counts": False}) for vote in votes]
    return {**decision, "votes": shown}


def by_agent(votes: list[Vote], agents: list[str], state: Discussion, rule: str) -> Decision:
    """Decide by the answer of the first agent with the lowest temperature (CIPHER), or at the center of a star."""
    agent = agents[0]
    shown: list[Vote] = [{**vote, "counts": vote["agent"] == agent} for vote in votes]
    answer = next((vote["answer"] for vote in shown if vote["counts"]), None)
    best = "has" if len(agents) == 1 else "is the first with"
    why = f"{agent} hears all agents" if rule == CENTER else f"{agent} {best} the lowest temperature"
    why += "" if answer is not None else ", and its answer could not be read"
    return decided(rule, why, [], shown, state, (answer,))


def average(votes: list[Vote], state: Discussion) -> Decision:
    """Return a decision without an answer: the score is the share of agents that are right (SDE)."""
    decision = decided("average", "every agent's answer counts by itself", [], votes, state, (None,))
    if state.get("target") is None:
        return decision
    right = [kinds.right(vote["answer"], state) for vote in votes]
    return {**decision, "score": sum(right) / len(right)}


# The graph


def is_over(state: State) -> bool:
    """Return True after the last round, or after one in which enough agents agree."""
    settings = state["settings"]
    agreed = rules.is_agreed(state["votes"], state, settings["stop"])
    return agreed or state["round"] + 1 >= settings["rounds"]


def create_debate(settings: Debate | None = None, **inputs: Unpack[GraphInputs]) -> Graph:
    """Return the uncompiled graph of a debate.

    Args:
        settings: The defaults of its runs; the graph has nodes for their number of agents.
        inputs: `models`, `store` and `watch`, see `GraphInputs`.
    """
    from sottovoce.graphs.frame import Frame  # late, as all that imports langgraph

    settings = Debate.parse(settings)
    frame = Frame(SCHEME, settings, **inputs, rule=by_rule)
    speakers = settings.speakers()
    between = "moderate" if settings.retain == "diverse" else "next_round"
    between = "summarise" if settings.summarise == "shared" else between
    voters = {f"vote_{agent}": agent for agent in speakers if settings.rule in rules.VOTES}
    ends = [*voters] or [rules.JUDGE if settings.rule == rules.JUDGE else "decide"]

    def after_round(state: State) -> str | list[str]:
        """Continue until the debate is over; then ask for votes or the judge only if there are several answers."""
        if not is_over(state):
            return between
        return ends if len(viewpoints(state["votes"], state)) > 1 else "decide"

    over = "last round" if settings.stop == "never" else "agreed, or last round"
    decides = over if ends == ["decide"] else "one answer"
    labels = {between: "rounds left", rules.JUDGE: "several answers", "decide": decides}
    if settings.persona == "written":
        frame.graph.add_edge("next_round", "write_personas")
        write, name = rules.write_personas, rules.WRITER
        frame.act("write_personas", write, agent=name, role=name, to=lambda state: speakers, ends=speakers)
    for agent in speakers:
        if settings.persona == "none":
            frame.graph.add_edge("next_round", agent)
        frame.act(agent, take_turn, role="debater", to="close_round")
    follow = list(dict.fromkeys([between, *ends, "decide"]))
    frame.join("close_round", frame.step(rules.count), to=after_round, ends=follow, labels=labels)
    if settings.summarise == "shared":
        frame.act("summarise", summarise, agent=SUMMARISER, role="summariser", to="next_round")
    if settings.retain == "diverse":
        frame.act("moderate", rules.moderate, agent=rules.MODERATOR, role="moderator", to="next_round")
    if settings.rule == rules.JUDGE:
        frame.act(rules.JUDGE, rules.judge, role="judge", to="decide")
    for name, agent in voters.items():
        frame.act(name, rules.cast_vote, agent=agent, role="debater", to="decide", watched=False)
    return frame.graph


SCHEME = Scheme(
    "debate",
    Debate,
    create_debate,
    headings={
        "summarise": "Summaries, round {round}",
        "write_personas": "Written roles",
        "moderate": "Messages kept of round {round}",
        "vote": "Votes after round {round}",
        "judge": "The judge's choice after round {round}",
    },
    shows="one of two agents is wrong, and reads the other's answer",
    first={"sample": "arithmetic/53"},
)
make_graph = SCHEME.make_graph
