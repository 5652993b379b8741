"""The acts of a discussion whose course a rule gives (CMD, arXiv 2402.18272, Algorithm 2, "MesSync").

A round is a depth of the algorithm's queue: what is said in one is heard in the next, or kept by its receiver.
State holds references to messages on the board and nothing of the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableLambda

from sottovoce.channels.board import latest
from sottovoce.channels.message import Message
from sottovoce.errors import UsageError
from sottovoce.nodes.act import Act, Steps, Update
from sottovoce.nodes.cmd import Reading, by_secretary
from sottovoce.nodes.company import Company
from sottovoce.nodes.decide import Rule
from sottovoce.nodes.rules import RULE, SILENT, DiscussionRule, first_of, never_over, receivers_of
from sottovoce.nodes.say import say
from sottovoce.nodes.settings import MesSync
from sottovoce.nodes.settings.cmd import SECRETARY
from sottovoce.nodes.stage import Stage
from sottovoce.nodes.state import Decision, Discussion, Reference, Vote, said
from sottovoce.nodes.tally import ballot
from sottovoce.nodes.views import View


def speak(company: Company[MesSync], rule: DiscussionRule, agent: str) -> Act:
    """One agent's round: it answers what it hears; who hears nothing says nothing."""

    def act(state: Discussion) -> Steps:
        stage = company.stage(state)
        if not _speaks(rule, stage, state, agent):
            return {}
        view, (own, heard) = stage.view(state, agent, agent), _exchanges(state, agent)
        turns, act = rule.modify(view, rule.merge(view, own, heard)), "revise" if own else "answer"
        complain = partial(_complaint, rule, view)
        return {"board": (yield from say(stage, state, agent, turns, act, complain=complain, form=view.form()))}

    return act


def pass_on(company: Company[MesSync], rule: DiscussionRule) -> RunnableLambda[Discussion, Update]:
    """The node that ends a round: it reads the votes, and sends what was said to those who hear it next.

    Nothing is added to `heard` where the discussion is over. Receivers are those of the next depth.
    """

    def pass_on(state: Discussion) -> Update:
        stage, depth = company.stage(state), state["round"] + 1
        votes = _votes(rule, stage, state)
        sent, remarks = _queued(rule, {**state, "votes": votes}, depth, stage.settings.speakers())
        if not sent and not remarks:
            return {"votes": votes}
        if depth == stage.settings.depth:
            raise never_over(rule, depth)
        heard, held = _received(rule, state, sent, depth)
        board = [message.to_dict() for message in remarks]
        return {"votes": votes, "board": board, "heard": [*_heard(state), heard], "held": held}

    return RunnableLambda(pass_on, name="pass_on")


def goes_on(state: Discussion) -> bool:
    """Whether there is another round."""
    return len(_heard(state)) > state["round"] + 1


def last_words(rule: DiscussionRule) -> Callable[[Stage[MesSync], Discussion], Reading]:
    """What a secretary reads: what each agent said last, and what it is read as."""

    def read(stage: Stage[MesSync], state: Discussion) -> Reading:
        return _last_words(state, stage.settings.speakers()), _votes(rule, stage, state)

    return read


def by_rule(rule: DiscussionRule) -> Rule:
    """The secretary's answer where it was asked, or what the rule makes of the votes."""

    def by_rule(stage: Stage[Any], state: Discussion) -> Decision:  # Any: as every scheme's
        votes, asked = _votes(rule, stage, state), said(state, SECRETARY, state["round"], "decide")
        return rule.decide(votes, state) if asked is None else by_secretary(votes, state)

    return by_rule


# What was said, sent and heard


def _speaks(rule: DiscussionRule, stage: Stage[MesSync], state: Discussion, agent: str) -> bool:
    if not state["round"]:
        return agent in first_of(rule, stage.settings.speakers())
    return agent in _heard(state)[state["round"]]


def _heard(state: Discussion) -> list[dict[str, list[Reference]]]:
    return state.get("heard") or [{}]  # nobody hears anything in round 0


def _exchanges(state: Discussion, agent: str) -> tuple[list[Message], list[list[Message]]]:
    """What an agent said before this round, and what it heard before each of that and now."""
    own = {r: message for r in range(state["round"]) if (message := said(state, agent, r))}
    heard = [_heard(state)[r].get(agent, []) for r in (*own, state["round"])]
    return list(own.values()), [_messages(state, references) for references in heard]


def _queued(
    rule: DiscussionRule, state: Discussion, depth: int, agents: Sequence[str]
) -> tuple[dict[str, list[Message]], list[Message]]:
    """What each agent is sent for the next round, and what the rule says where nobody is sent anything."""
    if rule.is_over(state):
        return {}, []
    sent = _sent(rule, _spoken(state, agents), depth, agents)
    if sent or not (text := rule.silence(depth)):
        return sent, []
    remark = Message(RULE, state["round"], "break_silence", text, source="rule")
    return _sent(rule, [remark], depth, agents), [remark]


def _spoken(state: Discussion, agents: Iterable[str]) -> list[Message]:
    """What this round's agents said that is not silence."""
    found = [said(state, agent, state["round"]) for agent in agents]
    return [message for message in found if message is not None and not _is_silent(message.text)]


def _sent(
    rule: DiscussionRule, messages: Iterable[Message], depth: int, agents: Sequence[str]
) -> dict[str, list[Message]]:
    """The algorithm's receiving map: what each agent is sent, in senders' order."""
    sent: dict[str, list[Message]] = {}
    for message in messages:
        for agent in receivers_of(rule, message.agent, depth, agents):
            sent.setdefault(agent, []).append(message)
    return sent


def _received(
    rule: DiscussionRule, state: Discussion, sent: dict[str, list[Message]], depth: int
) -> tuple[dict[str, list[Reference]], dict[str, list[Reference]]]:
    """What each agent hears next, and what it keeps: what it kept before stands before what is new."""
    heard: dict[str, list[Reference]] = {}
    held = dict(state.get("held") or {})
    for agent, fresh in sent.items():
        messages = [*_messages(state, held.pop(agent, [])), *fresh]
        place = held if rule.hold(agent, messages, depth) else heard
        place[agent] = [[message.round, message.agent, message.act] for message in messages]
    return heard, held


def _messages(state: Discussion, references: Iterable[Reference]) -> list[Message]:
    there = {message.key[:3]: message for message in latest(state.get("board", []))}
    found = list[Message]()
    for round, agent, act in references:
        message = there.get((int(round), str(agent), str(act)))
        if message is None:
            raise UsageError(
                f"{agent!r} has no message of round {round}, act {act!r}, on the board, but others are to hear it; "
                "resume the run from an earlier step"
            )
        found.append(message)
    return found


def _last_words(state: Discussion, agents: Iterable[str]) -> dict[str, Message]:
    """What each agent said last that is not silence, in agents' order."""
    found = {message.agent: message for message in latest(state.get("board", [])) if not _is_silent(message.text)}
    return {agent: found[agent] for agent in agents if agent in found}


def _votes(rule: DiscussionRule, stage: Stage[MesSync], state: Discussion) -> list[Vote]:
    """Read from each agent's last words; those that the rule finds wrong are abstentions."""
    votes = list[Vote]()
    for agent, message in _last_words(state, stage.settings.speakers()).items():
        wrong = rule.validate(stage.view(state, agent, agent), message.text)
        votes.append({"agent": agent, "answer": None, "counts": False} if wrong else ballot(message, state))
    return votes


def _complaint(rule: DiscussionRule, view: View, text: str) -> str:
    return "" if _is_silent(text) else rule.validate(view, text)


def _is_silent(text: str) -> bool:
    return text.strip() == SILENT
