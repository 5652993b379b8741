"""CMD's agents in groups, and the secretary who breaks a tie."""

from __future__ import annotations

import random
from collections.abc import Sequence

from sottovoce.channels.message import Message
from sottovoce.nodes import cmd
from sottovoce.nodes.settings.cmd import SECRETARY, grouped
from sottovoce.nodes.state import documents_of
from sottovoce.nodes.tally import ballot
from sottovoce.training.debates import Talk, names
from sottovoce.training.dress import dress
from sottovoce.training.forms import Posed
from sottovoce.training.places import Place, plain
from sottovoce.training.sources import Source, posed

HINTS = ("Products come before sums.", "Check each step.", "Look at all digits.")


def first(rng: random.Random, source: Source) -> Place:
    """The first answer."""
    dressed = dress(rng, source.alone(rng, source.form(rng)), "agent_1", source.prompts)
    right = dressed.problem.reply(dressed.problem.known(dressed.view.documents()))
    return Place(cmd.answer_turns(dressed.view), right, plain(dressed.problem.question), dressed.view.form())


def discussion(rng: random.Random, source: Source) -> Place:
    """Another answer, after the own group's in full and a tally of the others'."""
    n = rng.choices((1, 2, 3, 4, 5, 6, 7, 9, 12), (1, 2, 3, 3, 3, 6, 1, 1, 1))[0]
    talk = source.talk(rng, names, n, rng.choice((1, 1, 2)))
    problem, me = posed(talk), rng.choice(talk.agents)
    dressed = dress(rng, problem, me, source.prompts)
    groups = grouped(talk.agents) if rng.random() < 0.8 else _by_lot(rng, talk.agents)
    mine = next(group for group in groups if me in group)
    messages = _messages(talk)
    votes = [ballot(message, problem.question) for message in messages.values()]
    known = problem.known([*dressed.view.documents(), *(messages[name].text for name in mine)])
    turns = cmd.discuss_turns(dressed.view, messages, votes, groups)
    right, own = problem.reply(known), messages[me]
    was_right = own.text == problem.reply(problem.known(documents_of(problem.question, me))) and not own.round
    lessons = frozenset({own.key}) if was_right else frozenset()
    return Place(turns, right, plain(problem.question), dressed.view.form(), lessons)


def secretary(rng: random.Random, source: Source) -> Place:
    """The secretary's answer, worked out from the question and what one holder of each view said."""
    talk = source.talk(rng, names, rng.choice((2, 3, 4, 6, 6)), rng.choice((1, 1, 2)))
    talk = Talk(_shared(rng, posed(talk)), talk.said, talk.agents)
    problem = posed(talk)
    if rng.random() < 0.1:
        problem.question["hints"] = [rng.choice(HINTS)]
    view = dress(rng, problem, SECRETARY, source.prompts, name=SECRETARY).view
    messages = _messages(talk)
    votes = [ballot(message, problem.question) for message in messages.values()]
    turns = cmd.secretary_turns(view, messages, votes)
    heard = [part.text for turn in turns for part in turn.parts if not isinstance(part, str)]
    right = problem.reply(problem.known([*view.documents(), *heard]))
    return Place(turns, right, plain(problem.question), view.form())


def _shared(rng: random.Random, problem: Posed) -> Posed:
    """The problem, with documents that everybody holds in half of the cases."""
    question = {**problem.question}
    if "documents" in question and rng.random() < 0.5:
        question["documents"] = documents_of(problem.question, None)
    return Posed(problem.expression, question, problem.facts, problem.claimed)  # type: ignore[arg-type]


def _messages(talk: Talk) -> dict[str, Message]:
    return {name: talk.message(len(talk.said) - 1, name) for name in talk.agents}


def _by_lot(rng: random.Random, agents: Sequence[str]) -> list[list[str]]:
    left, groups = list(agents), list[list[str]]()
    while left:
        size = rng.randint(1, 3)
        groups.append(left[:size])
        left = left[size:]
    return groups
