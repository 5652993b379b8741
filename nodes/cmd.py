"""CMD: groups that hear each other in full and others as a tally, secretary and representatives (arXiv 2402.18272)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from langchain_core.runnables import RunnableLambda

from sottovoce.channels.message import Heard, Message, Turn
from sottovoce.nodes.act import Act, Steps, Update
from sottovoce.nodes.company import Company
from sottovoce.nodes.decide import decided
from sottovoce.nodes.say import Complain, say
from sottovoce.nodes.settings import CMD
from sottovoce.nodes.settings.cmd import SECRETARY, grouped
from sottovoce.nodes.stage import Stage, derived_seed
from sottovoce.nodes.state import Decision, Discussion, Vote, question_id, rounds_of, said
from sottovoce.nodes.tally import leading, number, viewpoints
from sottovoce.nodes.views import View, viewpoint_slots
from sottovoce.prompts import answers

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
    slots = {**view.slots(), "documents": view.documents(), "number": number(len(votes)), "viewpoints": found}
    told = view.system_turn(*view.prompts.render("cmd/secretary", **slots))
    asked = view.prompts.render("cmd/decide", hints=view.question.get("hints", []), form=view.form())
    return [*told, Turn("user", asked)]


# What they do


def discuss(company: Company[CMD], agent: str) -> Act:
    """One agent's answer; the last ones of a level are asked for again where they cannot be read."""

    def act(state: Discussion) -> Steps:
        stage, round = company.stage(state), state["round"]
        if not any(agent in group for group in state["groups"]):
            return {}
        view, turns = stage.view(state, agent, agent), []
        if round:
            active = [vote for vote in state["votes"] if any(vote["agent"] in group for group in state["groups"])]
            turns = discuss_turns(view, rounds_of(state)[round - 1], active, state["groups"])
        saying = say(
            stage,
            state,
            agent,
            turns or answer_turns(view),
            "revise" if round else "answer",
            complain=_unreadable(state) if is_last(state) else lambda text: "",
            form=view.form(),
        )
        return {"board": (yield from saying)}

    return act


def decide_tie(company: Company[CMD]) -> Act:
    """The secretary's answer, in words."""

    def act(state: Discussion) -> Steps:
        stage = company.stage(state)
        view = stage.view(state, SECRETARY, SECRETARY)
        turns = secretary_turns(view, rounds_of(state)[-1], state["votes"])
        complain, form = _unreadable(state), view.form()
        saying = say(stage, state, SECRETARY, turns, "decide", complain=complain, form=form, speaks="nl")
        return {"board": (yield from saying)}

    return act


def is_last(state: Discussion) -> bool:
    """Whether this is the last round of its level."""
    return (state["round"] + 1) % int(state["settings"]["rounds"]) == 0


def is_tied(state: Discussion) -> bool:
    """Whether several answers have the most votes."""
    return len(leading(viewpoints(state["votes"], state))) > 1


def send_representatives(company: Company[CMD]) -> RunnableLambda[Discussion, Update]:
    """Each group sends one agent to the next level, where they are divided into groups again (Algorithm 1)."""

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
    tied = {name for view in leading(viewpoints(state["votes"], state)) for name in view.agents}
    return next((name for name in group if policy == "tied" and name in tied), group[0])


def by_vote(stage: Stage[CMD], state: Discussion) -> Decision:
    """The answer with most votes; at a tie the secretary's, or the first of the tied ones on the highest level."""
    votes = state["votes"]
    best = leading(viewpoints(votes, state))
    message = said(state, SECRETARY, state["round"], "decide")
    if message is None:
        why = f"{len(best[0].votes)} of {len(votes)} say {best[0].answer}" if best else ""
        why += f" on level {state['level'] + 1}" if state["level"] else ""
        return decided("vote", why, best, votes, state)
    answer = answers.read(message.text, state.get("kind", "number"), state.get("choices"))
    why = f"a tie of {' and '.join(view.answer for view in best)}; the secretary decided"
    why += "" if answer is not None else ", and its answer could not be read"
    return {**decided(SECRETARY, why, best, votes, state, (answer,)), "by": SECRETARY}


def _unreadable(state: Discussion) -> Complain:
    kind, choices = state.get("kind", "number"), state.get("choices")

    def complain(text: str) -> str:
        return "" if answers.read(text, kind, choices) is not None else f"it holds no {kind.replace('_', ' or ')}"

    return complain
