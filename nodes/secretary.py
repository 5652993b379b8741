"""The secretary of CMD and of discussions by a rule, who decides ties (arXiv 2402.18272)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sottovoce.agents.ask import Ask
from sottovoce.channels.message import Message, MessageRef, Turn
from sottovoce.core.event_loop import off_loop
from sottovoce.nodes.decide import decided, leading, number, took, viewpoint_slots, viewpoints, voted
from sottovoce.nodes.prompt_builder import PromptBuilder, blocks
from sottovoce.nodes.say import say_answer
from sottovoce.nodes.state import Decision, Discussion, Update, Vote, said

if TYPE_CHECKING:
    from sottovoce.nodes.act import Act
    from sottovoce.nodes.agent import Agent
    from sottovoce.nodes.context import RunContext

SECRETARY = "secretary"
Reading = tuple[Mapping[str, Message], Sequence[Vote]]
"""A secretary's input: messages by agent, and the votes in them."""


def secretary_turns(builder: PromptBuilder, messages: Mapping[str, Message], votes: Sequence[Vote]) -> tuple[Turn, ...]:
    """Return the question, and each viewpoint with its number of agents and the first one's explanation."""
    found = viewpoint_slots(
        builder,
        [vote for vote in votes if vote["answer"] is not None],
        {vote["agent"]: MessageRef(messages[vote["agent"]]) for vote in votes},
        most=1,
    )
    said = builder.prompts.render("cmd/secretary", number=number(len(votes)), viewpoints=found)
    request = blocks(
        builder.prompts.render("cmd/decide", hints=builder.question.get("hints", [])), builder.question_of()
    )
    return (*builder.system_turn(*blocks(builder.known(builder.documents()), said)), Turn("user", request))


def secretary(read: Callable[[RunContext[Any], Any], Reading]) -> Act:
    """Return the act of a secretary, which gets its input from `read` and decides in text."""

    async def decide_tie(run: RunContext[Any], state: Discussion, agent: Agent) -> Update:
        builder = agent.prompt_builder(state)
        messages, votes = await off_loop(read, run, state)
        ask = Ask("decide", secretary_turns(builder, messages, votes), protocol="nl")
        return {"board": await say_answer(run, state, agent, ask)}

    return decide_tie


def by_secretary(votes: Sequence[Vote], state: Discussion) -> Decision:
    """Decide by the secretary's answer, which may also be one that no agent gave."""
    tied = leading(viewpoints(votes, state))
    message = said(state, SECRETARY, state["round"], ("decide",))
    assert message is not None, "the secretary was asked"
    vote = voted(message, state)
    did = "decided" if vote["counts"] else "was asked, and its answer could not be read"
    why = f"a tie of {' and '.join(viewpoint.answer for viewpoint in tied)}; the secretary {did}"
    why += f" ({took(vote)})" if took(vote) else ""
    return {**decided(SECRETARY, why, tied, votes, state, (vote["answer"],)), "by": SECRETARY}
