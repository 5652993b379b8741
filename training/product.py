"""The view of agents and the reading of replies: the only module of training that uses the product's nodes and graphs.

The other modules use texts: what each agent said in each round, in the order in which they spoke.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sottovoce.channels.message import Message, MessageRef, Turn
from sottovoce.graphs.scheme import scheme
from sottovoce.nodes import cmd, mad, reconcile
from sottovoce.nodes.convincing_samples import ANSWER, CONFIDENCE, REASONING
from sottovoce.nodes.decide import read_vote
from sottovoce.nodes.prompt_builder import PromptBuilder
from sottovoce.nodes.question import Question, passages_of, shown
from sottovoce.nodes.say import ANSWER_PREFILL, form_of, has_answer
from sottovoce.prompts import kinds
from sottovoce.prompts.packs import SHIPPED
from sottovoce.prompts.render import Prompts
from sottovoce.settings import COMPONENTS, SECRETARY, Order, grouped

__all__ = ["COMPONENTS", "SECRETARY", "Order", "PromptBuilder", "Question", "Turn", "grouped"]

Said = Mapping[str, str]  # what each agent said in a round, in order


@dataclass(frozen=True)
class Place:
    """The place of the next reply in a discussion."""

    turns: Sequence[Turn]
    form: str = ""
    """The answer format that the product names when it asks again."""
    answer: Callable[[str], str | None] = str
    """Parses a reply as the product does."""
    problem: Callable[[str], str] = lambda text: ""
    """Returns what is wrong with a reply; empty if it is readable."""
    prefill: str = ""
    """The prefill, a given beginning that is not part of the reply."""


def trained_prompts() -> Prompts:
    """Return the prompts that the bundled model is trained on and asked with."""
    return Prompts(SHIPPED / "bundled")


def documents_of(question: Question, agent: str | None) -> list[str]:
    """Return the documents that an agent gets with the question; for None, those of all agents."""
    return [shown(passage) for passage in passages_of(question, agent)]


def seen_by(agent: str | None, question: Question, prompts: Prompts) -> PromptBuilder:
    """Return an agent's prompt builder for a question; None gets all documents."""
    return PromptBuilder(prompts, question, agent, agent=agent or "", answers="sentence")


def history(
    view: PromptBuilder, said: Sequence[Said], order: Order | None = None, summaries: Sequence[str] = ()
) -> Sequence[Turn]:
    """Return the whole chat of one agent, which hears the others or `summaries` of them."""
    rounds = _messages(said)
    own = [spoken[view.agent] for spoken in rounds]
    if summaries:
        return view.history_of_summaries(own, [Message("summary", 0, "summarise", text) for text in summaries])
    return view.history(own, [_others(spoken, view) for spoken in rounds], order)


def fresh(view: PromptBuilder, spoken: Said, order: Order | None = None) -> Sequence[Turn]:
    """Return one prompt with the messages of the last round."""
    (messages,) = _messages([spoken])
    return view.fresh(messages[view.agent], _others(messages, view), order)


def summarise(view: PromptBuilder, spoken: Said) -> Sequence[Turn]:
    """Return the prompt to summarize the others' answers of the last round."""
    return view.summarise(_others(_messages([spoken])[0], view))


def in_words(view: PromptBuilder, turns: Sequence[Turn] = ()) -> Place:
    """Return a place for a reply in words; without `turns`, the question alone."""
    choices = view.question.get("choices")
    prompt = turns or view.independent()
    return Place(prompt, view.form(), lambda text: kinds.read(text, view.kind, choices), has_answer(view.question))


def mad_debater(view: PromptBuilder, order: Sequence[str], said: Sequence[Said], disagreement: int) -> Place:
    """Return a debater's turn; `said` ends with the agents that spoke before it."""
    return in_words(view, mad.debater_turns(view, order, _messages(said), disagreement))


def mad_moderator(view: PromptBuilder, order: Sequence[str], said: Sequence[Said], verdicts: Sequence[str]) -> Place:
    """Return the moderator's turn after its own earlier verdicts."""
    rounds = _messages([{**spoken, "moderator": own} for spoken, own in zip(said, [*verdicts, ""], strict=True)])
    return _in_form(view, mad.moderator_turns(view, order, rounds), mad.verdict_form(view, order), mad.verdict)


def mad_judge(view: PromptBuilder, order: Sequence[str], said: Sequence[Said], candidates: str) -> Place:
    """Return the judge's turn after its list of candidates."""
    listed = Message("judge", len(said), "list_candidates", candidates)
    turns = mad.judge_turns(view, order, _messages(said), listed)
    return _in_form(view, turns, mad.judgement_form(view), mad.judgement)


def mad_json(reason: str, answer: str, *sides: str) -> str:
    """Return a judge's JSON, or with preference and supported side a moderator's."""
    chosen = dict(zip((mad.PREFERENCE, mad.SIDE), sides, strict=False))
    return json.dumps({mad.REASON: reason, **chosen, mad.ANSWER: answer})


def reconcile_place(view: PromptBuilder, spoken: Said | None = None, samples: Sequence[str] = ()) -> Place:
    """Return ReConcile's first turn, or a later one after the answers of a round, the agent's own included."""
    turns = reconcile.answer_turns(view, samples)
    if spoken is not None:
        (messages,) = _messages([spoken])
        votes = [reconcile.read_vote(message, view.question) for message in messages.values()]
        turns = reconcile.discuss_turns(view, messages, votes, samples)
    return _in_form(view, turns, reconcile.form(view), reconcile.stated)


def reconcile_convinced(view: PromptBuilder) -> Place:
    """Return ReConcile's turn after an explanation, the question's `solution`."""
    explained = view.prompts.render("reconcile/convince", explanation=view.question["solution"])
    turns = (*view.system_turn(), Turn("user", view.full_turn(reconcile.form(view), discussion=explained)))
    return _in_form(view, turns, reconcile.form(view), reconcile.stated)


def reconcile_json(reasoning: str, answer: str, confidence: str) -> str:
    """Return ReConcile's JSON."""
    return json.dumps({REASONING: reasoning, ANSWER: answer, CONFIDENCE: confidence})


def cmd_place(view: PromptBuilder, spoken: Said | None = None, groups: cmd.Groups = ()) -> Place:
    """Return CMD's first turn, or a later one after a round in groups; without groups, the secretary's turn."""
    if spoken is None:
        return in_words(view, cmd.answer_turns(view))
    (messages,) = _messages([spoken])
    votes = [read_vote(message, view.question) for message in messages.values()]
    if not groups:
        return in_words(view, cmd.secretary_turns(view, messages, votes))
    return in_words(view, cmd.discuss_turns(view, messages, votes, groups))


def asked_again(prompts: Prompts, place: Place, said: str) -> Place:
    """Return the place after an unreadable reply there, when `nodes.say` asks again."""
    request = prompts.render("shared/repair", complaint=place.problem(said), form=place.form)
    return replace(place, turns=[*place.turns, spoken_turn(said), Turn("user", request)])


def answer_turn_of(view: PromptBuilder, place: Place, said: str) -> Place:
    """Return the place after an unreadable reply there, when `nodes.say` asks for the answer alone."""
    form, wanted = form_of(view.question), kinds.KINDS[view.kind].placeholder
    offered = list(form.choices if form else view.question.get("choices") or [])
    request = Turn("user", view.prompts.render("shared/answer_turn", wanted=wanted, choices=offered))
    words = in_words(view, [*place.turns, spoken_turn(said), request])
    return replace(
        words,
        prefill=ANSWER_PREFILL,
        answer=lambda text: words.answer(ANSWER_PREFILL + text),
        problem=lambda text: words.problem(ANSWER_PREFILL + text),
    )


def spoken_turn(said: str, prefill: str = "") -> Turn:
    """Return the agent's own message as a turn, after its prefill."""
    return Turn("assistant", (*([prefill] if prefill else []), MessageRef(Message("me", 0, "say", said), own=True)))


def _in_form(
    view: PromptBuilder,
    turns: Sequence[Turn],
    form: str,
    read: Callable[[str, Question], mad.Verdict | reconcile.Stated],
) -> Place:
    task = view.question
    return Place(turns, form, lambda text: read(text, task).answer, lambda text: read(text, task).error)


def _messages(said: Sequence[Said]) -> list[dict[str, Message]]:
    return [{name: Message(name, r, "say", text) for name, text in spoken.items()} for r, spoken in enumerate(said)]


def _others(spoken: Mapping[str, Message], view: PromptBuilder) -> list[Message]:
    return [message for name, message in spoken.items() if name != view.agent]


def speakers(name: str, **settings: Any) -> list[str]:  # Any: settings of the scheme
    """Return the agents of a scheme."""
    return scheme(name).settings(**settings).speakers()
