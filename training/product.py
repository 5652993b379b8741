"""What agents are shown and how they are read: the one module of training that knows the product's nodes and graphs.

The rest speaks in texts: what each agent said in each round, in the order in which they spoke.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sottovoce.channels.message import Heard, Message, Turn
from sottovoce.channels.store import PayloadStore
from sottovoce.evaluation.walk import convince_turns
from sottovoce.graphs import scheme
from sottovoce.nodes import cmd, mad, reconcile
from sottovoce.nodes.say import unreadable
from sottovoce.nodes.settings import COMPONENTS, MAD, Order
from sottovoce.nodes.settings.cmd import SECRETARY, grouped
from sottovoce.nodes.state import Question, documents_of
from sottovoce.nodes.tally import ballot
from sottovoce.nodes.views import View
from sottovoce.prompts import answers
from sottovoce.prompts.render import Prompts

__all__ = ["COMPONENTS", "SECRETARY", "Order", "Place", "Question", "Said", "Turn", "View", "documents_of", "grouped"]

Said = Mapping[str, str]
"""What each agent said in a round, in order."""


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


# Debates


def history(view: View, me: str | None, said: Sequence[Said], order: Order | None = None) -> list[Turn]:
    """The whole chat of one agent; `me` may be None where nothing was said."""
    rounds = _messages(said)
    others = [[message for name, message in spoken.items() if name != me] for spoken in rounds]
    return view.history([spoken[me] for spoken in rounds if me is not None], others, order)


def history_of_summaries(view: View, me: str, said: Sequence[Said], summaries: Sequence[str]) -> list[Turn]:
    """The whole chat of one agent, whom each round's answers of the others reach as one summary."""
    messages = [Message("summary", r, "summarise", text) for r, text in enumerate(summaries)]
    return view.history_of_summaries([spoken[me] for spoken in _messages(said)], messages)


def fresh(view: View, me: str, spoken: Said, order: Order | None = None) -> list[Turn]:
    """One prompt with what was said in the last round."""
    messages = dict(_messages([spoken])[0])
    own = messages.pop(me)
    return view.fresh(own, list(messages.values()), order)


def summarise(view: View, me: str, spoken: Said) -> list[Turn]:
    """The others' answers of the last round, to be summed up."""
    return view.summarise([message for name, message in _messages([spoken])[0].items() if name != me])


# Roles of schemes


def in_words(view: View, turns: Sequence[Turn] | None = None) -> Place:
    """Where a reply is read as words; `turns` None are the question alone."""
    question = view.question
    kind, choices = question.get("kind", "number"), question.get("choices")
    turns = view.independent() if turns is None else turns
    return Place(turns, view.form(), lambda text: answers.read(text, kind, choices), unreadable(question))


def mad_sides(n: int) -> list[str]:
    """The names of MAD's n debaters."""
    return MAD(agents=n).speakers()


def mad_debater(view: View, me: str, order: Sequence[str], said: Sequence[Said], disagreement: int) -> Place:
    """A debater's turn; `said` ends with those who spoke before it."""
    return in_words(view, mad.debater_turns(view, me, order, _messages(said), disagreement))


def mad_moderator(view: View, order: Sequence[str], said: Sequence[Said], verdicts: Sequence[str]) -> Place:
    """The moderator's verdict after its own earlier ones."""
    own = [{"moderator": Message("moderator", r, "moderate", text)} for r, text in enumerate(verdicts)]
    rounds = [{**spoken, **verdict} for spoken, verdict in zip(_messages(said), [*own, {}], strict=True)]
    return _in_form(view, mad.moderator_turns(view, order, rounds), mad.verdict_form(view, order), mad.verdict)


def mad_judge(view: View, order: Sequence[str], said: Sequence[Said], candidates: str) -> Place:
    """The judge's answer after its list of candidates."""
    listed = Message("judge", len(said), "list_candidates", candidates)
    turns = mad.judge_turns(view, order, _messages(said), listed)
    return _in_form(view, turns, mad.judgement_form(view), mad.judgement)


def mad_json(reason: str, answer: str, sides: tuple[str, str] | None = None) -> dict[str, str]:
    """The fields of a judge's JSON, and with (preference, supported side) of a moderator's."""
    chosen = {mad.PREFERENCE: sides[0], mad.SIDE: sides[1]} if sides else {}
    return {mad.REASON: reason, **chosen, mad.ANSWER: answer}


def reconcile_first(view: View, samples: Sequence[str] = ()) -> Place:
    """ReConcile's first answer."""
    return _in_form(view, reconcile.answer_turns(view, samples), reconcile.form(view), reconcile.stated)


def reconcile_discussion(view: View, spoken: Said, samples: Sequence[str] = ()) -> Place:
    """ReConcile's answer after the answers of a round, the own one among them."""
    messages = _messages([spoken])[0]
    votes = [reconcile.ballot(message, view.question) for message in messages.values()]
    turns = reconcile.discuss_turns(view, messages, votes, samples)
    return _in_form(view, turns, reconcile.form(view), reconcile.stated)


def reconcile_convinced(view: View) -> Place:
    """ReConcile's answer after an explanation: the question's `solution`."""
    return _in_form(view, convince_turns(view), reconcile.form(view), reconcile.stated)


def reconcile_json(reasoning: str, answer: str, confidence: str) -> dict[str, str]:
    """The fields of ReConcile's JSON."""
    return {"reasoning": reasoning, reconcile.ANSWER: answer, reconcile.CONFIDENCE: confidence}


def cmd_first(view: View) -> Place:
    """CMD's first answer."""
    return in_words(view, cmd.answer_turns(view))


def cmd_discussion(view: View, spoken: Said, groups: Sequence[Sequence[str]]) -> Place:
    """CMD's answer after the own group's answers in full and a tally of the others'."""
    messages = _messages([spoken])[0]
    votes = [ballot(message, view.question) for message in messages.values()]
    return in_words(view, cmd.discuss_turns(view, messages, votes, groups))


def cmd_secretary(view: View, spoken: Said) -> Place:
    """The secretary's answer at a tie."""
    messages = _messages([spoken])[0]
    votes = [ballot(message, view.question) for message in messages.values()]
    return in_words(view, cmd.secretary_turns(view, messages, votes))


def asked_again(prompts: Prompts, place: Place, said: str) -> Place:
    """The place after something unreadable was said there, as `nodes.say` asks once more."""
    request = prompts.render("shared/repair", complaint=place.complain(said), form=place.form)
    return replace(place, turns=[*place.turns, spoken_turn(said), Turn("user", request)])


def spoken_turn(said: str) -> Turn:
    """What the agent itself says."""
    return Turn("assistant", (Heard(Message("me", 0, "say", said), own=True),))


def _in_form(
    view: View, turns: Sequence[Turn], form: str, read: Callable[[str, Question], mad.Verdict | reconcile.Stated]
) -> Place:
    question = view.question
    return Place(turns, form, lambda text: read(text, question).answer, lambda text: read(text, question).complaint)


def _messages(said: Sequence[Said]) -> list[dict[str, Message]]:
    return [
        {name: Message(name, r, "revise" if r else "answer", text) for name, text in spoken.items()}
        for r, spoken in enumerate(said)
    ]


# Runs


def speakers(name: str, settings: Mapping[str, Any]) -> list[str]:  # Any: settings of the scheme
    """Who discusses in a scheme; a debate's agents where nobody does."""
    asked = scheme(name).settings(**settings)
    return list((asked if asked.discusses else scheme("debate").settings()).speakers())


async def run(
    name: str, settings: Mapping[str, Any], questions: Sequence[Question], at_once: int
) -> list[tuple[str | None, str]]:
    """For each question the decision's answer, and the first agent's last words."""
    found = scheme(name)
    with tempfile.TemporaryDirectory() as folder:
        graph = found.create(found.settings(**settings), store=PayloadStore(folder)).compile()
        ends = await graph.abatch(list(questions), {"max_concurrency": at_once}, output_keys=["decision", "board"])
    return [(end["decision"]["answer"], _last(end["board"])) for end in ends]


def _last(board: Sequence[Any]) -> str:  # Any: messages, or plain JSON as a checkpoint holds them
    messages = [entry if isinstance(entry, Message) else Message.from_dict(entry) for entry in board]
    first = messages[0].agent
    return max((message for message in messages if message.agent == first), key=lambda message: message.key).text
