"""ReConcile's agents: answers with a confidence, alone and after reading everybody's."""

from __future__ import annotations

import json
import random
from dataclasses import replace

from sottovoce.channels.message import Message, words
from sottovoce.evaluation.walk import convince_turns
from sottovoce.nodes import reconcile
from sottovoce.nodes.state import Question
from sottovoce.prompts.kinds import lettered
from sottovoce.prompts.render import Prompts
from sottovoce.training import problems
from sottovoce.training.confidence import confidence
from sottovoce.training.debates import Talk, names
from sottovoce.training.dress import dress
from sottovoce.training.forms import Form, Posed, parts, pose, read, shown
from sottovoce.training.places import Place, Reader, spoilt
from sottovoce.training.sources import Source, posed

SAMPLES = 0.06
"""Share of chats that show a convincing sample or two."""
SPOILT = 0.06
"""Share of heard answers that cannot be read."""


def first(rng: random.Random, source: Source) -> Place:
    """The first answer."""
    dressed = dress(rng, source.alone(rng, source.form(rng)), "agent_1", source.prompts)
    problem, view = dressed.problem, dressed.view
    known = problem.known(view.documents())
    turns = reconcile.answer_turns(view, _samples(rng, problem.form, source.prompts))
    return Place(turns, said(problem, known), _reader(problem), reconcile.form(view))


def discussion(rng: random.Random, source: Source) -> Place:
    """Another answer, after all answers of the round before."""
    talk = source.talk(rng, names, rng.choices((2, 3, 4), (0.3, 0.5, 0.2))[0], rng.choice((1, 1, 2)))
    problem, r, me = posed(talk), len(talk.said) - 1, rng.choice(talk.agents)
    dressed = dress(rng, problem, me, source.prompts)
    messages = {name: Message(name, r, "answer", _heard(rng, talk, name)) for name in talk.agents}
    votes = [reconcile.ballot(message, problem.question) for message in messages.values()]
    known = problem.known([*dressed.view.documents(), *(message.text for message in messages.values())])
    others = [vote["answer"] for vote in votes if vote["agent"] != me]
    turns = reconcile.discuss_turns(dressed.view, messages, votes, _samples(rng, problem.form, source.prompts))
    right = said(problem, known, [None if answer is None else shown(answer, problem.form) for answer in others])
    return Place(turns, right, _reader(problem), reconcile.form(dressed.view))


def convinced(rng: random.Random, source: Source) -> Place:
    """The answer after an explanation by somebody who knows (`evaluation.walk`)."""
    problem = source.alone(rng, source.form(rng))
    explanation = problem.reply(list(problem.facts))
    question: Question = {**problem.question, "solution": explanation}
    dressed = dress(rng, replace(problem, question=question), "agent_1", source.prompts)
    known = problem.known([*dressed.view.documents(), explanation])
    right = said(problem, known, [problem.stated(known)])
    return Place(convince_turns(dressed.view), right, _reader(problem), reconcile.form(dressed.view))


def said(problem: Posed, known: list[str], others: list[str | None] | None = None) -> str:
    """The right JSON."""
    return _json(problem.working(known), problem.stated(known), confidence(problem, known, others or []))


def _json(reasoning: str, answer: str, confidence: str) -> str:
    return json.dumps({"reasoning": reasoning, reconcile.ANSWER: answer, reconcile.CONFIDENCE: confidence})


def _heard(rng: random.Random, talk: Talk, name: str) -> str:
    """A statement of a talk as ReConcile's JSON; sure of itself at random, or unreadable."""
    problem, text = posed(talk), talk.said[-1][name]
    found = parts(text, problem.form)
    if found is None:
        return text
    sure = "0.1" if read(problem, text) is None else rng.choice(("0.5", "0.75", "0.8", "0.9", "0.9", "0.95", "1"))
    text = _json(*found, sure)
    return spoilt(rng, text) if rng.random() < SPOILT else text


def _samples(rng: random.Random, form: Form, prompts: Prompts) -> list[str]:
    if rng.random() >= SAMPLES:
        return []
    return [_sample(pose(rng, problems.plain(rng), form), prompts) for _ in range(rng.choice((1, 1, 2)))]


def _sample(problem: Posed, prompts: Prompts) -> str:
    shown = {"question": problem.question["question"], "choices": lettered(problem.question.get("choices", []))}
    told = {"explanation": problem.working([]), "answer": problem.stated([])}
    return words(prompts.render("reconcile/sample", **shown, **told))


def _reader(problem: Posed) -> Reader:
    def stated(text: str) -> reconcile.Stated:
        return reconcile.stated(text, problem.question)

    return Reader(lambda text: stated(text).answer, lambda text: stated(text).complaint)
