"""The acts of MAD: debate in turn, moderate, list the candidates, judge; and how it is decided (Liang et al. 2023)."""

from __future__ import annotations

from sottovoce.nodes.act import Act, Steps
from sottovoce.nodes.company import Company
from sottovoce.nodes.decide import decided
from sottovoce.nodes.mad import (
    Rounds,
    candidates_turns,
    debater_turns,
    judge_turns,
    judgement,
    judgement_form,
    moderator_turns,
    verdict,
    verdict_form,
)
from sottovoce.nodes.say import say
from sottovoce.nodes.settings import MAD
from sottovoce.nodes.stage import Stage
from sottovoce.nodes.state import Decision, Discussion, Vote, rounds_of, said
from sottovoce.nodes.tally import ballot
from sottovoce.nodes.views import View


def debate(company: Company[MAD], agent: str) -> Act:
    """One debater's statement: after all of this round who spoke before it."""

    def act(state: Discussion) -> Steps:
        stage, view = _at(company, state, agent)
        order, settings = stage.settings.speakers(), stage.settings
        turns = debater_turns(view, agent, order, rounds_of(state), settings.disagreement)
        return {"board": (yield from say(stage, state, agent, turns, "revise" if state["round"] else "answer"))}

    return act


def moderate(company: Company[MAD]) -> Act:
    """The moderator's verdict on the round."""

    def act(state: Discussion) -> Steps:
        stage, view = _at(company, state, "moderator")
        order = stage.settings.speakers()

        def complain(text: str) -> str:
            return verdict(text, state).complaint

        saying = say(
            stage,
            state,
            "moderator",
            moderator_turns(view, order, rounds_of(state)),
            "moderate",
            complain=complain,
            form=verdict_form(view, order),
            speaks="nl",
        )
        return {"board": (yield from saying)}

    return act


def list_candidates(company: Company[MAD]) -> Act:
    """The judge lists the answers that the debaters gave."""

    def act(state: Discussion) -> Steps:
        stage, view = _at(company, state, "judge")
        turns = candidates_turns(view, stage.settings.speakers(), _read_by_judge(stage, state))
        return {"board": (yield from say(stage, state, "judge", turns, "list_candidates", speaks="nl"))}

    return act


def judge(company: Company[MAD]) -> Act:
    """The judge chooses one of them."""

    def act(state: Discussion) -> Steps:
        stage, view = _at(company, state, "judge")
        listed = said(state, "judge", state["round"], "list_candidates")
        assert listed is not None, "the judge lists candidates before it chooses"
        turns = judge_turns(view, stage.settings.speakers(), _read_by_judge(stage, state), listed)

        def complain(text: str) -> str:
            return judgement(text, state).complaint

        form = judgement_form(view)
        saying = say(stage, state, "judge", turns, "judge", complain=complain, form=form, speaks="nl")
        return {"board": (yield from saying)}

    return act


def _at(company: Company[MAD], state: Discussion, agent: str) -> tuple[Stage[MAD], View]:
    stage = company.stage(state)
    return stage, stage.view(state, agent, agent)


def _read_by_judge(stage: Stage[MAD], state: Discussion) -> Rounds:
    rounds = rounds_of(state)
    return {"all": rounds, "last": rounds[-1:], "first": rounds[:1]}[stage.settings.judge_sees]


def settled(state: Discussion) -> str | None:
    """The moderator's answer of the current round, if it gave one."""
    message = said(state, "moderator", state["round"])
    return verdict(message.text, state).answer if message else None


def by_verdict(stage: Stage[MAD], state: Discussion) -> Decision:
    """The moderator's answer, else the judge's; the debaters' own last statements are shown and do not count."""
    answer, by, round = settled(state), "moderator", state["round"]
    why = f"the moderator settled it in round {round + 1}"
    if answer is None:
        message, by = said(state, "judge", round, "judge"), "judge"
        answer = judgement(message.text, state).answer if message else None
        did = "decided" if answer is not None else "was asked, and its answer could not be read,"
        why = f"the judge {did} after round {round + 1}"
    spoken = rounds_of(state)[-1]
    votes: list[Vote] = [{**ballot(spoken[name], state), "counts": False} for name in stage.settings.speakers()]
    return {**decided(by, why, [], votes, state, (answer,)), "by": by}
