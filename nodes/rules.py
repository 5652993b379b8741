"""The rule of a discussion: first speakers, receivers, prompts and the end.

CMD's message passing (arXiv 2402.18272, Algorithm 2, "MesSync") runs any discussion that such a rule
describes; `nodes/discussion.py` applies it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sottovoce.channels.message import Message, MessageRef, Part, Turn
from sottovoce.core.errors import UsageError, nearest
from sottovoce.nodes.decide import majority
from sottovoce.nodes.prompt_builder import PromptBuilder, blocks, own_turn
from sottovoce.nodes.question import Question
from sottovoce.nodes.state import Decision, Discussion, Vote

RULE = "rule"
"""The author of remarks when all agents are silent."""
SILENT = "<silence>"
"""The reply of an agent that has nothing to say: nobody hears it, and it is not a vote."""


class DiscussionRule:
    """Base class of rules; override the methods that differ.

    By default, all agents speak in every round, hear all others' messages of the round before, and never stop.
    A rule must be stateless: agents call it in parallel, and again when a run is resumed. `agents` are all that
    discuss, in order; rounds are 0-based, and `state` is that at the end of a round, with the votes read from each
    agent's last message.
    """

    def first_speakers(self, agents: Sequence[str]) -> Iterable[str]:
        """Return the agents that speak in round 0, before they hear anything."""
        return agents

    def receivers(self, message: Message, state: Discussion, agents: Sequence[str]) -> Iterable[str]:
        """Return the agents that hear a message in the next round: any agents, including its author, or []."""
        return [agent for agent in agents if agent != message.agent]

    def should_wait(self, agent: str, messages: Sequence[Message], state: Discussion) -> bool:
        """Return True if `agent` stays silent in the next round, and keeps its messages until it receives more.

        `messages` are all that it has not answered, the ones it kept first.
        """
        return False

    def merge(
        self, builder: PromptBuilder, own: Sequence[Message], received: Sequence[Sequence[Message]]
    ) -> Sequence[Turn]:
        """Return the prompt of `builder.agent`, from all messages that it wrote and heard.

        `own[i]` was its answer to `heard[i]`; the last of `heard` has no answer yet. Messages are in senders'
        order, after those that were kept.
        """
        return chat(builder, own, received)

    def modify(self, builder: PromptBuilder, turns: Sequence[Turn]) -> Sequence[Turn]:
        """Return the final prompt, from the merged one."""
        return turns

    def validate(self, builder: PromptBuilder, message: Message) -> str:
        """Return a short description of what is wrong with an answer, or "".

        The agent is asked once more; a reply that is still wrong is heard as it is, and counts as an abstention.
        """
        return ""

    def silence(self, state: Discussion) -> str:
        """Return the remark of RULE if nobody receives a message for the next round; "" ends the discussion.

        `receivers` chooses who hears it.
        """
        return ""

    def is_over(self, state: Discussion) -> bool:
        """Return True to end the discussion after this round."""
        return False

    def decide(self, votes: Sequence[Vote], question: Question) -> Decision:
        """Return the decision, if no secretary was asked."""
        return majority(votes, question)


def chat(builder: PromptBuilder, own: Sequence[Message], received: Sequence[Sequence[Message]]) -> list[Turn]:
    """Return a debater's chat: the question, and before each of its answers the messages heard (Du et al. 2023).

    Messages received before its first answer follow the question; an agent that hears nobody else verifies
    its own answer.
    """
    turns = builder.system_turn()
    for i, messages in enumerate(received):
        by_agents = [message for message in messages if message.agent not in (builder.agent, RULE)]
        remarks = [(message.text,) for message in messages if message.agent == RULE]
        said: Sequence[Part] = ()
        if by_agents:
            others = [MessageRef(message, latest=i == len(own)) for message in by_agents]
            said = builder.prompts.render("debate/revise", others=others, own="", own_first=False)
        elif i:
            said = builder.prompts.render("debate/verify")
        known = () if i else builder.known(builder.documents())
        turns.append(Turn("user", blocks(known, *remarks, said, builder.question_of())))
        if i < len(own):
            turns.append(own_turn(own[i], latest=i == len(own) - 1))
    return turns


def check_rule(rule: DiscussionRule, agents: Sequence[str]) -> None:
    """Refuse an invalid rule before any model runs."""
    if not isinstance(rule, DiscussionRule):
        raise UsageError(f"the rule is {rule!r}; expected an object of a class derived from DiscussionRule")
    if not first_of(rule, agents):
        raise UsageError(
            f"the rule {type(rule).__name__} names no first speaker; expected some of: {', '.join(agents)}"
        )


def first_of(rule: DiscussionRule, agents: Sequence[str]) -> list[str]:
    """Return the first speakers, in agents' order."""
    return _among(agents, rule.first_speakers(agents), f"first speaker of the rule {type(rule).__name__}")


def receivers_of(rule: DiscussionRule, message: Message, state: Discussion, agents: Sequence[str]) -> list[str]:
    """Return the receivers of a message, in agents' order.

    Raises:
        UsageError: the rule names an unknown agent.
    """
    found = rule.receivers(message, state, agents)
    where = f"receiver of {message.agent!r} after round {message.round + 1} by the rule {type(rule).__name__}"
    return _among(agents, found, where)


def _among(agents: Sequence[str], names: Iterable[str], described: str) -> list[str]:
    if isinstance(names, str):  # would be read letter by letter
        raise UsageError(f"{described}: found {names!r}; expected a list of agents, like [{names!r}]")
    chosen = list(names)
    for name in chosen:
        if name not in agents:
            raise UsageError(nearest(f"{described}:", name, list(agents)))
    return [agent for agent in agents if agent in chosen]
