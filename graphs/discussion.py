"""Discussions described by a rule: message passing (CMD, arXiv 2402.18272, Algorithm 2, "MesSync").

In each round every agent that received a message answers it. The rule chooses who hears the answer in the
next round, and who stores it for later. This continues until nothing is sent or the rule ends it.

A round is a depth of the algorithm's queue: its messages are heard in the next round, or stored by their receivers. The
state has only the places of messages on the board; the rule is not stored.

>>> from sottovoce.agents.scripted import ScriptedChatModel
>>> from sottovoce.nodes.rules import DiscussionRule
>>> class Relay(DiscussionRule):
...     '''The first agent answers, and each further agent continues from the one before.'''
...
...     def first_speakers(self, agents):
...         return agents[:1]
...
...     def receivers(self, message, state, agents):
...         return agents[message.round + 1 : message.round + 2]
>>> model = ScriptedChatModel(["The answer is 21.", "No, the answer is 22.", "The answer is 22."])
>>> relay = create_discussion(Relay(), models=model).compile()
>>> relay.invoke({"question": "What is 14 + 3 * 5 - 7?"})["decision"]["answer"]
'22'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Unpack

from pydantic import Field

from sottovoce.agents.ask import Ask
from sottovoce.channels.message import Message
from sottovoce.core.bounds import Agents, Rounds
from sottovoce.core.errors import UsageError
from sottovoce.graphs.scheme import Graph, GraphInputs, Scheme, State
from sottovoce.nodes.decide import is_tie, voted
from sottovoce.nodes.rules import RULE, SILENT, DiscussionRule, first_of, receivers_of
from sottovoce.nodes.say import lacks_answer, say
from sottovoce.nodes.secretary import SECRETARY, Reading, by_secretary, secretary
from sottovoce.nodes.settings import Model, Settings
from sottovoce.nodes.state import RESTORED, Decision, Discussion, Update, Vote, current_messages, said

if TYPE_CHECKING:
    from sottovoce.nodes.agent import Agent
    from sottovoce.nodes.context import RunContext
    from sottovoce.nodes.rules import DiscussionRule


class MesSync(Settings):
    """A rule passes messages on, round by round (CMD, arXiv 2402.18272, Algorithm 2)."""

    acts: ClassVar[tuple[str, ...]] = ("answer", "revise", "decide")

    model: Model = Field(default=["bundled"])
    agents: Agents = Field(default=3, ge=1, description="Number of agents.")
    depth: Rounds = Field(
        default=100, ge=1, description="Maximum number of rounds; a rule that has not ended by then is an error."
    )
    secretary: bool = Field(default=False, description="Let a secretary decide a tie.")

    def others(self) -> list[str]:
        """Return the secretary, who is asked only at a tie."""
        return [SECRETARY] if self.secretary else []

    def topology(self) -> tuple[str, ...]:
        """Return the number of agents, and if there is a secretary: each has a node."""
        return *super().topology(), f"{'a' if self.secretary else 'no'} secretary"


# Acts


Where = list[int | str]
"""Round, turn, agent and act of a message, which is the last attempt in the current epoch."""
Sent = dict[str, list[Message]]


class Passed(Discussion):
    """The state of a discussion by a rule."""

    heard: Annotated[list[dict[str, list[Where]]], RESTORED]
    """By round and agent: the messages that it answers; an agent without an entry is silent."""
    held: Annotated[dict[str, list[Where]], RESTORED]
    """The messages that agents received and keep until they receive more."""


@dataclass(frozen=True)
class Passing:
    """The acts and nodes of a discussion under a rule."""

    rule: DiscussionRule

    def begin(self, run: RunContext[MesSync], state: Passed) -> Update:
        """Return the first speakers, which have heard nothing."""
        return {"heard": [{agent: [] for agent in first_of(self.rule, run.settings.speakers())}], "held": {}}

    async def reply(self, run: RunContext[MesSync], state: Passed, agent: Agent) -> Update:
        """Return an agent's answer to the messages that it hears; without any, it says nothing."""
        if agent.name not in state["heard"][state["round"]]:
            return {}
        builder, (own, messages) = agent.prompt_builder(state), _exchanges(run, state, agent.name)
        turns = tuple(self.rule.modify(builder, self.rule.merge(builder, own, messages)))
        ask = Ask("revise" if own else "answer", turns)

        def validate(message: Message) -> str:
            return "" if _is_silent(message.text) else self.rule.validate(builder, message)

        def missing(message: Message) -> str:
            return "" if _is_silent(message.text) else lacks_answer(state)(message)

        board = await say(run, state, agent, ask, validate=validate, requested=builder.form(), lacks_answer=missing)
        return {"board": board}

    def pass_on(self, run: RunContext[MesSync], state: Passed) -> Update:
        """End a round: read the votes, and send messages to their next hearers.

        If the discussion is over, nothing is added to `heard`.
        """
        votes = self._votes(run, state)
        counted: Any = {**state, "votes": votes}
        sent, remarks = self._queued(run, counted)
        if not sent and not remarks:
            return {"votes": votes}
        if state["round"] + 1 >= run.settings.depth:
            raise UsageError(
                f"the rule {type(self.rule).__name__} has not ended after {run.settings.depth} rounds; expected an "
                "end by then: let its is_over return True earlier, or raise the setting 'depth'"
            )
        now, held = self._received(counted, sent)
        return {"votes": votes, "board": remarks, "heard": [*state["heard"], now], "held": held}

    def last_words(self, run: RunContext[MesSync], state: Passed) -> Reading:
        """Return the secretary's input: each agent's last message, and the votes."""
        return _last_words(state, run.settings.speakers()), self._votes(run, state)

    def decide(self, run: RunContext[MesSync], state: Passed) -> Decision:
        """Decide by the secretary's answer if it was asked, otherwise by the rule."""
        votes, asked = self._votes(run, state), said(state, SECRETARY, state["round"], ("decide",))
        return self.rule.decide(votes, state) if asked is None else by_secretary(votes, state)

    def _queued(self, run: RunContext[MesSync], state: Passed) -> tuple[Sent, list[Message]]:
        """Return the messages for each agent's next round, and the rule's remark if nobody gets any."""
        if self.rule.is_over(state):
            return {}, []
        agents = run.settings.speakers()
        found = [said(state, agent, state["round"], run.answers) for agent in agents]
        spoken = [message for message in found if message is not None and not _is_silent(message.text)]
        sent = self._sent(state, spoken, agents)
        if sent or not (text := self.rule.silence(state)):
            return sent, []
        remark = run.message(state, RULE, "break_silence", text, attempt=0)
        return self._sent(state, [remark], agents), [remark]

    def _sent(self, state: Passed, messages: Iterable[Message], agents: Sequence[str]) -> Sent:
        """Return the algorithm's receiving map: the messages for each agent, in senders' order."""
        sent: Sent = {}
        for message in messages:
            for agent in receivers_of(self.rule, message, state, agents):
                sent.setdefault(agent, []).append(message)
        return sent

    def _received(self, state: Passed, sent: Sent) -> tuple[dict[str, list[Where]], dict[str, list[Where]]]:
        """Return the messages that agents hear next, and those they store. Earlier stored messages come first."""
        now: dict[str, list[Where]] = {}
        held = dict(state["held"])
        for agent, fresh in sent.items():
            messages = [*_messages(state, held.pop(agent, [])), *fresh]
            to = held if self.rule.should_wait(agent, messages, state) else now
            to[agent] = [[message.round, message.turn, message.agent, message.act] for message in messages]
        return now, held

    def _votes(self, run: RunContext[MesSync], state: Passed) -> list[Vote]:
        """Return the votes from each agent's last message. Votes that the rule finds invalid are abstentions."""
        votes = list[Vote]()
        for agent, message in _last_words(state, run.settings.speakers()).items():
            vote = voted(message, state)
            wrong = vote.get("asked") != "answer" and self.rule.validate(
                run.agent(agent).prompt_builder(state), message
            )
            votes.append({"agent": agent, "answer": None, "counts": False} if wrong else vote)
        return votes


def _exchanges(run: RunContext[MesSync], state: Passed, agent: str) -> tuple[list[Message], list[list[Message]]]:
    """Return an agent's messages before this round, and the messages heard before each of them and now."""
    own = {r: message for r in range(state["round"]) if (message := said(state, agent, r, run.answers))}
    read = [state["heard"][r].get(agent, []) for r in (*own, state["round"])]
    return list(own.values()), [_messages(state, places) for places in read]


def _messages(state: Passed, places: Iterable[Where]) -> list[Message]:
    there: dict[tuple[int | str, ...], Message] = {
        (*message.time, message.agent, message.act): message for message in current_messages(state)
    }
    return [there[tuple(where)] for where in places]


def _last_words(state: Passed, agents: Iterable[str]) -> dict[str, Message]:
    """Return each agent's last message that is not silence, in agents' order."""
    found = {message.agent: message for message in current_messages(state) if not _is_silent(message.text)}
    return {agent: found[agent] for agent in agents if agent in found}


def _is_silent(text: str) -> bool:
    return text.strip() == SILENT


# The graph


SENT = {"next_round": "sent to somebody", "secretary": "a tie", "decide": "sent to nobody"}


def another_round(state: State) -> Literal["next_round", "decide"]:
    """Continue as long as any message was sent."""
    return "next_round" if len(state["heard"]) > state["round"] + 1 else "decide"


def tie_or_end(state: State) -> Literal["next_round", "secretary", "decide"]:
    """Continue as long as any message was sent; then ask the secretary if there is a tie."""
    if another_round(state) == "next_round":
        return "next_round"
    return "secretary" if is_tie(state["votes"], state) else "decide"


def create_discussion(rule: DiscussionRule, settings: MesSync | None = None, **inputs: Unpack[GraphInputs]) -> Graph:
    """Return the uncompiled graph of a discussion. Names in `models`: the agents, and "secretary" if there is one."""
    from sottovoce.graphs.frame import Frame  # late, as all that imports langgraph
    from sottovoce.nodes.rules import check_rule

    settings = MesSync.parse(settings)
    check_rule(rule, settings.speakers())
    passing = Passing(rule)
    frame = Frame(SCHEME, settings, **inputs, rule=passing.decide, begin=passing.begin, state=Passed)
    for agent in settings.speakers():
        frame.graph.add_edge("next_round", agent)
        frame.act(agent, passing.reply, to="pass_on")
    if settings.secretary:
        frame.join("pass_on", frame.step(passing.pass_on), to=tie_or_end, labels=SENT)
        frame.act(SECRETARY, secretary(passing.last_words), role="secretary", to="decide")
    else:
        frame.join("pass_on", frame.step(passing.pass_on), to=another_round, labels=SENT)
    return frame.graph


SCHEME = Scheme("discussion", MesSync, create_discussion, headings={"decide": "The secretary's answer"})
