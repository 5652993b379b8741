"""The acts of a discussion that follows a rule (CMD, arXiv 2402.18272, Algorithm 2, "MesSync").

A round is a depth of the algorithm's queue: its messages are heard in the next round, or kept by their receivers.
State has the places of messages on the board, and nothing of the rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from sottovoce.agents.ask import Ask
from sottovoce.channels.message import Message
from sottovoce.core.errors import UsageError
from sottovoce.graphs.discussion import MesSync
from sottovoce.nodes.agent import Agent
from sottovoce.nodes.cmd import Reading, by_secretary
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.decide import voted
from sottovoce.nodes.rules import RULE, SILENT, DiscussionRule, first_of, receivers_of
from sottovoce.nodes.say import lacks_answer, say
from sottovoce.nodes.shared_settings import SECRETARY
from sottovoce.nodes.state import RESTORED, Decision, Discussion, Update, Vote, current_messages, said

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
        """Return the messages that agents hear next, and those they keep; messages kept earlier come first."""
        now: dict[str, list[Where]] = {}
        held = dict(state["held"])
        for agent, fresh in sent.items():
            messages = [*_messages(state, held.pop(agent, [])), *fresh]
            to = held if self.rule.should_wait(agent, messages, state) else now
            to[agent] = [[message.round, message.turn, message.agent, message.act] for message in messages]
        return now, held

    def _votes(self, run: RunContext[MesSync], state: Passed) -> list[Vote]:
        """Return the votes from each agent's last message; invalid ones by the rule are abstentions."""
        votes = list[Vote]()
        for agent, message in _last_words(state, run.settings.speakers()).items():
            vote = voted(message, state)
            wrong = vote.get("asked") != "answer" and self.rule.validate(
                run.agent(agent).prompt_builder(state), message
            )
            votes.append({"agent": agent, "answer": None, "counts": False} if wrong else vote)
        return votes


def _exchanges(run: RunContext[MesSync], state: Passed, agent: str) -> tuple[list[Message], list[list[Message]]]:
    """Return an agent's messages before this round, and what it heard before each of them and now."""
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
