"""The rule of a discussion: who speaks first, who hears whom, what a prompt is made of, and when it is over.

CMD's message passing (arXiv 2402.18272, Algorithm 2, "MesSync") holds any discussion that such a rule
describes; `nodes/discussion.py` does what it says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sottovoce.channels.message import Heard, Message, Part, Turn
from sottovoce.errors import UsageError, choose
from sottovoce.nodes.decide import majority
from sottovoce.nodes.question import Question
from sottovoce.nodes.state import Decision, Discussion, Vote
from sottovoce.nodes.views import View, blocks

RULE = "rule"
"""Who speaks where all agents are silent."""
SILENT = "<silence>"
"""What an agent says that has nothing to say: nobody hears it, and it is no vote."""


class DiscussionRule:
    """Derive from it and write what is different.

    As it stands, all agents speak in every round, hear all others of the round before, and never stop.
    A rule answers from what it is told and keeps nothing in mind: it is asked by agents side by side, and
    again where a run is resumed. `agents` are all that discuss, in order; rounds are 0-based, and `state` is that
    at the end of a round, with the votes read from what each agent said last.
    """

    def first_speakers(self, agents: Sequence[str]) -> Iterable[str]:
        """Who speaks in round 0, having heard nothing."""
        return agents

    def receivers(self, message: Message, state: Discussion, agents: Sequence[str]) -> Iterable[str]:
        """Who hears a message in the next round; it may be who said it, or nobody."""
        return [agent for agent in agents if agent != message.agent]

    def hold(self, agent: str, messages: Sequence[Message], state: Discussion) -> bool:
        """Whether `agent` says nothing in the next round, and keeps what it was sent until it is sent more.

        `messages` are all that it has not answered, those that it kept first.
        """
        return False

    def merge(self, view: View, own: Sequence[Message], heard: Sequence[Sequence[Message]]) -> Sequence[Turn]:
        """The prompt of `view.agent`, from all that it said and heard.

        `own[i]` was its answer to `heard[i]`; the last of `heard` has no answer yet. Messages stand in senders'
        order, what was held before them.
        """
        return chat(view, own, heard)

    def modify(self, view: View, turns: Sequence[Turn]) -> Sequence[Turn]:
        """The prompt as it is sent."""
        return turns

    def validate(self, view: View, text: str) -> str:
        """What is wrong with an answer, in a few words, or nothing; `say.unreadable` has the usual complaint.

        The agent is asked once to say it again; what is still wrong is heard as it is, and its vote is an abstention.
        """
        return ""

    def silence(self, state: Discussion) -> str:
        """What RULE says where nobody is sent anything for the next round; if nothing, the discussion is over.

        Who hears it is asked of `receivers`.
        """
        return ""

    def is_over(self, state: Discussion) -> bool:
        """Whether it ends after this round."""
        return False

    def decide(self, votes: Sequence[Vote], question: Question) -> Decision:
        """How it ended, where no secretary was asked."""
        return majority(votes, question)


def chat(view: View, own: Sequence[Message], heard: Sequence[Sequence[Message]]) -> list[Turn]:
    """A debater's chat: the question, and before each own answer what was heard (Du et al. 2023).

    Who was sent something before it first spoke reads that after the question; who hears nobody else verifies
    its own answer.
    """
    turns = view.system_turn()
    for i, messages in enumerate(heard):
        turns.append(_asked(view, messages, first=i == 0, latest=i == len(own)))
        if i < len(own):
            turns.append(Turn("assistant", (Heard(own[i], latest=i == len(own) - 1, own=True),)))
    return turns


def _asked(view: View, messages: Sequence[Message], *, first: bool, latest: bool) -> Turn:
    others = [Heard(message, latest=latest) for message in messages if message.agent not in (view.agent, RULE)]
    remarks = [(message.text,) for message in messages if message.agent == RULE]
    said: Sequence[Part] = ()
    if others:
        said = view.prompts.render("debate/revise", others=others, own="", own_first=False)
    elif not first:
        said = view.prompts.render("debate/verify")
    return Turn("user", blocks(view.known(view.documents()) if first else (), *remarks, said, view.question_of()))


def check_rule(rule: DiscussionRule, agents: Sequence[str]) -> None:
    """Refuse what cannot be a rule, before any model speaks.

    Raises:
        UsageError: it is none, or names no first speakers among the agents.
    """
    if not isinstance(rule, DiscussionRule):
        raise UsageError(f"the rule is {rule!r}; expected an object of a class that is derived from DiscussionRule")
    if not first_of(rule, agents):
        raise UsageError(
            f"the rule {type(rule).__name__} names no first speaker; expected some of: {', '.join(agents)}"
        )


def first_of(rule: DiscussionRule, agents: Sequence[str]) -> list[str]:
    """Who speaks first, in agents' order."""
    return _among(agents, rule.first_speakers(agents), f"first speaker of the rule {type(rule).__name__}")


def receivers_of(rule: DiscussionRule, message: Message, state: Discussion, agents: Sequence[str]) -> list[str]:
    """Who hears a message, in agents' order.

    Raises:
        UsageError: the rule names somebody who is no agent.
    """
    found = rule.receivers(message, state, agents)
    where = f"receiver of {message.agent!r} after round {message.round + 1} by the rule {type(rule).__name__}"
    return _among(agents, found, where)


def _among(agents: Sequence[str], found: Iterable[str], what: str) -> list[str]:
    if isinstance(found, str):  # it would be read letter by letter
        raise UsageError(f"{what}: found {found!r}; expected a list of agents, like [{found!r}]")
    named = list(found)
    for name in named:
        if name not in agents:
            raise UsageError(choose(f"{what}:", name, list(agents)))
    return [agent for agent in agents if agent in named]
