"""What agents are shown and how they are read: the one module of training that knows the product's nodes and graphs.

The rest speaks in texts: what each agent said in each round, in the order in which they spoke.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sottovoce.channels.message import Heard, Message, Turn
from sottovoce.evaluation.walk import convince_turns
from sottovoce.graphs.scheme import scheme
from sottovoce.nodes import cmd, mad, reconcile
from sottovoce.nodes.question import Question, passages_of, shown
from sottovoce.nodes.samples import ANSWER, CONFIDENCE, REASONING
from sottovoce.nodes.say import BEGUN, form_of, unreadable
from sottovoce.nodes.settings import COMPONENTS, SECRETARY, Order, grouped
from sottovoce.nodes.tally import ballot
from sottovoce.nodes.views import View
from sottovoce.prompts import kinds
from sottovoce.prompts.packs import SHIPPED
from sottovoce.prompts.render import Prompts

__all__ = ["COMPONENTS", "SECRETARY", "Order", "Question", "Turn", "View", "grouped"]

Said = Mapping[str, str]  # what each agent said in a round, in order


@dataclass(frozen=True)
class Place:
    """Where somebody speaks next."""

    turns: Sequence[Turn]
    form: str = ""
    """What the product asks for when it asks again."""
    answer: Callable[[str], str | None] = str
    """How the product reads a reply."""
    complain: Callable[[str], str] = lambda text: ""
    """What is wrong with a reply; empty where it can be read."""
    begun: str = ""
    """The beginning that the reply is given; it is no part of it."""


def trained_prompts() -> Prompts:
    """Return the prompts that the bundled model is trained on and asked with."""
    return Prompts(SHIPPED / "bundled")


def documents_of(question: Question, agent: str | None) -> list[str]:
    """What an agent is told beside the question; None is told everything."""
    return [shown(passage) for passage in passages_of(question, agent)]


def seen_by(agent: str | None, question: Question, prompts: Prompts) -> View:
    """How an agent sees a question; None sees everybody's documents."""
    return View(prompts, question, agent, agent=agent or "", answers="sentence")


def history(
    view: View, said: Sequence[Said], order: Order | None = None, summaries: Sequence[str] = ()
) -> Sequence[Turn]:
    """The whole chat of one agent, who hears the others or `summaries` of them."""
    rounds = _messages(said)
    own = [spoken[view.agent] for spoken in rounds]
    if summaries:
        return view.history_of_summaries(own, [Message("summary", 0, "summarise", text) for text in summaries])
    return view.history(own, [_others(spoken, view) for spoken in rounds], order)


def fresh(view: View, spoken: Said, order: Order | None = None) -> Sequence[Turn]:
    """One prompt with what was said in the last round."""
    (messages,) = _messages([spoken])
    return view.fresh(messages[view.agent], _others(messages, view), order)


def summarise(view: View, spoken: Said) -> Sequence[Turn]:
    """The others' answers of the last round, to be summed up."""
    return view.summarise(_others(_messages([spoken])[0], view))


def in_words(view: View, turns: Sequence[Turn] = ()) -> Place:
    """Where a reply is read as words; without `turns`, the question alone."""
    choices = view.question.get("choices")
    asked = turns or view.independent()
    return Place(asked, view.form(), lambda text: kinds.read(text, view.kind, choices), unreadable(view.question))


def mad_debater(view: View, order: Sequence[str], said: Sequence[Said], disagreement: int) -> Place:
    """A debater's turn; `said` ends with those who spoke before it."""
    return in_words(view, mad.debater_turns(view, order, _messages(said), disagreement))


def mad_moderator(view: View, order: Sequence[str], said: Sequence[Said], verdicts: Sequence[str]) -> Place:
    """The moderator's verdict after its own earlier ones."""
    rounds = _messages([{**spoken, "moderator": own} for spoken, own in zip(said, [*verdicts, ""], strict=True)])
    return _in_form(view, mad.moderator_turns(view, order, rounds), mad.verdict_form(view, order), mad.verdict)


def mad_judge(view: View, order: Sequence[str], said: Sequence[Said], candidates: str) -> Place:
    """The judge's answer after its list of candidates."""
    listed = Message("judge", len(said), "list_candidates", candidates)
    turns = mad.judge_turns(view, order, _messages(said), listed)
    return _in_form(view, turns, mad.judgement_form(view), mad.judgement)


def mad_json(reason: str, answer: str, *sides: str) -> str:
    """A judge's JSON, and with preference and supported side a moderator's."""
    chosen = dict(zip((mad.PREFERENCE, mad.SIDE), sides, strict=False))
    return json.dumps({mad.REASON: reason, **chosen, mad.ANSWER: answer})


def reconcile_place(view: View, spoken: Said | None = None, samples: Sequence[str] = ()) -> Place:
    """ReConcile's first answer, or another after the answers of a round, the own one among them."""
    turns = reconcile.answer_turns(view, samples)
    if spoken is not None:
        (messages,) = _messages([spoken])
        votes = [reconcile.ballot(message, view.question) for message in messages.values()]
        turns = reconcile.discuss_turns(view, messages, votes, samples)
    return _in_form(view, turns, reconcile.form(view), reconcile.stated)


def reconcile_convinced(view: View) -> Place:
    """ReConcile's answer after an explanation: the question's `solution`."""
    return _in_form(view, convince_turns(view), reconcile.form(view), reconcile.stated)


def reconcile_json(reasoning: str, answer: str, confidence: str) -> str:
    """ReConcile's JSON."""
    return json.dumps({REASONING: reasoning, ANSWER: answer, CONFIDENCE: confidence})


def cmd_place(view: View, spoken: Said | None = None, groups: cmd.Groups = ()) -> Place:
    """CMD's first answer, or another after a round in groups; without groups its secretary's."""
    if spoken is None:
        return in_words(view, cmd.answer_turns(view))
    (messages,) = _messages([spoken])
    votes = [ballot(message, view.question) for message in messages.values()]
    if not groups:
        return in_words(view, cmd.secretary_turns(view, messages, votes))
    return in_words(view, cmd.discuss_turns(view, messages, votes, groups))


def asked_again(prompts: Prompts, place: Place, said: str) -> Place:
    """The place after something unreadable was said there, as `nodes.say` asks once more."""
    request = prompts.render("shared/repair", complaint=place.complain(said), form=place.form)
    return replace(place, turns=[*place.turns, spoken_turn(said), Turn("user", request)])


def asked_for_answer(view: View, place: Place, said: str) -> Place:
    """The place after something unreadable was said there, as `nodes.say` asks for the answer alone."""
    form, wanted = form_of(view.question), kinds.KINDS[view.kind].placeholder
    offered = list(form.choices if form else view.question.get("choices") or [])
    request = Turn("user", view.prompts.render("shared/answer_turn", wanted=wanted, choices=offered))
    words = in_words(view, [*place.turns, spoken_turn(said), request])
    return replace(
        words,
        begun=BEGUN,
        answer=lambda text: words.answer(BEGUN + text),
        complain=lambda text: words.complain(BEGUN + text),
    )


def spoken_turn(said: str, begun: str = "") -> Turn:
    """What the agent itself says, after the beginning that it was given."""
    return Turn("assistant", (*([begun] if begun else []), Heard(Message("me", 0, "say", said), own=True)))


def _in_form(
    view: View, turns: Sequence[Turn], form: str, read: Callable[[str, Question], mad.Verdict | reconcile.Stated]
) -> Place:
    task = view.question
    return Place(turns, form, lambda text: read(text, task).answer, lambda text: read(text, task).complaint)


def _messages(said: Sequence[Said]) -> list[dict[str, Message]]:
    return [{name: Message(name, r, "say", text) for name, text in spoken.items()} for r, spoken in enumerate(said)]


def _others(spoken: Mapping[str, Message], view: View) -> list[Message]:
    return [message for name, message in spoken.items() if name != view.agent]


def speakers(name: str, **settings: Any) -> list[str]:  # Any: settings of the scheme
    """Who discusses in a scheme."""
    return scheme(name).settings(**settings).speakers()
