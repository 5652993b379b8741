"""The acts of CMD: groups, whose members hear others only as a tally, a secretary and representatives.

CMD, arXiv 2402.18272.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from sottovoce.agents.ask import Ask
from sottovoce.channels.message import Message, MessageRef, Turn
from sottovoce.graphs.cmd import CMD, grouped
from sottovoce.nodes.act import Act
from sottovoce.nodes.agent import Agent
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.decide import (
    decided,
    last_votes,
    leading,
    number,
    took,
    viewpoint_slots,
    viewpoints,
    voted,
    votes_of,
)
from sottovoce.nodes.prompt_builder import PromptBuilder, blocks, own_turn
from sottovoce.nodes.say import say_answer
from sottovoce.nodes.shared_settings import SECRETARY
from sottovoce.nodes.state import RESTORED, Decision, Discussion, Update, Vote, rounds_of, said

Groups = Sequence[Sequence[str]]
Reading = tuple[Mapping[str, Message], Sequence[Vote]]
"""A secretary's input: messages by agent, and the votes in them."""


class Grouped(Discussion):
    """The state of CMD."""

    groups: Annotated[list[list[str]], RESTORED]
    """The groups of agents that discuss; agents in no group are silent from then on."""
    level: Annotated[int, RESTORED]
    """0-based; how often groups sent representatives."""


def begin(run: RunContext[CMD], state: Grouped) -> Update:
    """Return all agents in groups, on the first level."""
    return {"groups": run.settings.groups(), "level": 0}


# Prompts


def answer_turns(builder: PromptBuilder) -> tuple[Turn, ...]:
    """Return the prompt of the first answer: the question alone."""
    return (*builder.system_turn(*builder.prompts.render("cmd/agent")), Turn("user", builder.full_turn()))


def discuss_turns(
    builder: PromptBuilder, messages: Mapping[str, Message], votes: Sequence[Vote], groups: Groups
) -> tuple[Turn, ...]:
    """Return the question, the agent's last answer, the others' by the visibility rule, and the request for an update.

    O_i = {(v_j, e_j if j is in i's group, else v_j alone) : j != i} (section 3.2): agents of other groups appear
    only in one tally, as the number of agents per viewpoint, without their explanations. Earlier rounds are not
    shown. Agents that were not sent to a higher level are in no group: the rule restricts who hears, not who
    spoke, so their viewpoints are in the tally, as those of one more group.
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


# Acts


async def discuss(run: RunContext[CMD], state: Grouped, agent: Agent) -> Update:
    """Return one agent's answer."""
    round = state["round"]
    if not any(agent.name in group for group in state["groups"]):
        return {}
    builder = agent.prompt_builder(state)
    turns = answer_turns(builder)
    if round:
        messages, votes = rounds_of(state, run.answers)[round - 1], votes_of(run, state, round - 1)
        turns = discuss_turns(builder, messages, votes, state["groups"])
    return {"board": await say_answer(run, state, agent, Ask("revise" if round else "answer", turns))}


def last_round(run: RunContext[Any], state: Discussion) -> Reading:
    """Return the messages and votes of the last round."""
    return rounds_of(state, run.answers)[-1], last_votes(run, state)


def secretary(read: Callable[[RunContext[Any], Any], Reading] = last_round) -> Act:
    """Return the act of a secretary, which gets its input from `read` and decides in text."""

    async def decide_tie(run: RunContext[Any], state: Discussion, agent: Agent) -> Update:
        builder = agent.prompt_builder(state)
        ask = Ask("decide", secretary_turns(builder, *read(run, state)), protocol="nl")
        return {"board": await say_answer(run, state, agent, ask)}

    return decide_tie


decide_tie = secretary()


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
