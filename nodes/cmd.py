"""CMD: groups that hear each other in full and others as a tally, secretary and representatives (arXiv 2402.18272)."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableLambda

from sottovoce.channels.message import Heard, Message, Turn
from sottovoce.nodes.act import Act, Steps, Update
from sottovoce.nodes.company import Company
from sottovoce.nodes.decide import decided, votes_of
from sottovoce.nodes.say import say, unreadable
from sottovoce.nodes.settings import CMD
from sottovoce.nodes.settings.cmd import SECRETARY, grouped
from sottovoce.nodes.stage import Stage, derived_seed
from sottovoce.nodes.state import Decision, Discussion, Vote, question_id, rounds_of, said
from sottovoce.nodes.tally import is_tie, leading, number, viewpoints
from sottovoce.nodes.views import View, viewpoint_slots
from sottovoce.prompts import kinds

Groups = Sequence[Sequence[str]]


# What agents hear


def answer_turns(view: View) -> list[Turn]:
    """The first answer: the question alone."""
    return [*view.system_turn(*view.prompts.render("cmd/agent")), Turn("user", view.asked())]


def discuss_turns(view: View, messages: Mapping[str, Message], votes: Sequence[Vote], groups: Groups) -> list[Turn]:
    """The question, the own last answer, the others' by the visibility rule, and the request for an update.

    O_i = {(v_j, e_j where j is of i's group, else v_j alone) : j != i} (section 3.2): of other groups only
    the number of agents per viewpoint is told, all of them in one tally, and nothing of what they said.
    Earlier rounds are forgotten.
    """
    mine = next(group for group in groups if view.agent in group)
    near = [vote for vote in votes if vote["agent"] in mine and vote["agent"] != view.agent]
    far = [vote for vote in votes if vote["agent"] not in mine]
    heard = {vote["agent"]: Heard(messages[vote["agent"]]) for vote in near}
    parts = view.prompts.render(
        "cmd/discuss",
        groups=len(groups),
        tally=[line for line, _ in viewpoint_slots(view, [vote for vote in far if vote["answer"] is not None])],
        viewpoints=viewpoint_slots(view, near, heard),
    )
    own = Turn("assistant", (Heard(messages[view.agent], own=True),))
    return [*answer_turns(view), own, Turn("system", parts), view.user("cmd/update")]


def secretary_turns(view: View, messages: Mapping[str, Message], votes: Sequence[Vote]) -> list[Turn]:
    """The question, and each viewpoint with the number of its holders and the first one's explanation."""
    found = viewpoint_slots(
        view,
        [vote for vote in votes if vote["answer"] is not None],
        {vote["agent"]: Heard(messages[vote["agent"]]) for vote in votes},
        most=1,
    )
    slots = {**view.slots(), "documents": view.documents(), "description": view.description()}
    parts = view.prompts.render("cmd/secretary", **slots, number=number(len(votes)), viewpoints=found)
    asked = view.prompts.render("cmd/decide", hints=view.question.get("hints", []), form=view.form())
    return [*view.system_turn(*parts), Turn("user", asked)]


# What they do


def discuss(company: Company[CMD], agent: str) -> Act:
    """One agent's answer; the last ones of a level are asked for again where they cannot be read."""

    def act(state: Discussion) -> Steps:
        stage, round = company.stage(state), state["round"]
        if not any(agent in group for group in state["groups"]):
            return {}
        view, turns = stage.view(state, agent, agent), []
        if round:
            messages, votes = rounds_of(state)[round - 1], votes_of(state, round - 1)
            turns = discuss_turns(view, messages, votes, state["groups"])
        saying = say(
            stage,
            state,
            agent,
            turns or answer_turns(view),
            "revise" if round else "answer",
            complain=unreadable(state) if is_last(state) else lambda text: "",
            form=view.form(),
        )
        return {"board": (yield from saying)}

    return act


Reading = tuple[Mapping[str, Message], Sequence[Vote]]
"""What a secretary reads: messages by agent, and the votes that were read from them."""


def last_round(stage: Stage[Any], state: Discussion) -> Reading:
    """What was said in the last round."""
    return rounds_of(state)[-1], votes_of(state, state["round"])


def decide_tie(
    company: Company[Any],  # Any: of every scheme that may have a secretary
    read: Callable[[Stage[Any], Discussion], Reading] = last_round,
) -> Act:
    """The secretary's answer, in words."""

    def act(state: Discussion) -> Steps:
        stage = company.stage(state)
        view = stage.view(state, SECRETARY, SECRETARY)
        turns, complain = secretary_turns(view, *read(stage, state)), unreadable(state)
        saying = say(stage, state, SECRETARY, turns, "decide", complain=complain, form=view.form(), speaks="nl")
        return {"board": (yield from saying)}

    return act


def is_last(state: Discussion) -> bool:
    """Whether this is the last round of its level."""
    return (state["round"] + 1) % int(state["settings"]["rounds"]) == 0


def is_tied(state: Discussion) -> bool:
    """Whether several answers have the most votes."""
    return is_tie(votes_of(state, state["round"]), state)


def send_representatives(company: Company[CMD]) -> RunnableLambda[Discussion, Update]:
    """Each group sends one agent to the next level, where they are divided into groups again (Algorithm 1).

    There they hear one another, and nothing more of the agents that stayed behind.
    """

    def send_representatives(state: Discussion) -> Update:
        stage, level = company.stage(state), state["level"] + 1
        sent = [_representative(stage, state, group) for group in state["groups"]]
        return {"level": level, "groups": grouped(sent)}

    return RunnableLambda(send_representatives, name="send_representatives")


def _representative(stage: Stage[CMD], state: Discussion, group: Sequence[str]) -> str:
    policy = stage.settings.representative
    if policy == "random":
        seed = derived_seed(stage.settings.seed, question_id(state), state["round"], group[0], "representative")
        return random.Random(seed).choice(group)
    votes = votes_of(state, state["round"])
    tied = {name for view in leading(viewpoints(votes, state)) for name in view.agents}
    return next((name for name in group if policy == "tied" and name in tied), group[0])


def by_vote(stage: Stage[CMD], state: Discussion) -> Decision:
    """The answer with most votes; at a tie the secretary's, or the first of the tied ones on the highest level."""
    votes = votes_of(state, state["round"])
    if said(state, SECRETARY, state["round"], "decide") is not None:
        return by_secretary(votes, state)
    best = leading(viewpoints(votes, state))
    why = f"{len(best[0].votes)} of {len(votes)} say {best[0].answer}" if best else ""
    decision = decided("vote", why, best, votes, state)
    level = f" (level {state['level'] + 1})" if state["level"] else ""
    return {**decision, "why": decision["why"] + level}


def by_secretary(votes: Sequence[Vote], state: Discussion) -> Decision:
    """What the secretary said, who may also name an answer that nobody held."""
    tied = leading(viewpoints(votes, state))
    message = said(state, SECRETARY, state["round"], "decide")
    assert message is not None, "the secretary was asked"
    answer = kinds.read(message.text, state.get("kind", "number"), state.get("choices"))
    said_so = "decided" if answer is not None else "was asked, and its answer could not be read"
    why = f"a tie of {' and '.join(view.answer for view in tied)}; the secretary {said_so}"
    return {**decided(SECRETARY, why, tied, votes, state, (answer,)), "by": SECRETARY}
