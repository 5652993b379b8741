"""The skills of the last stage: all forms of an answer, the roles of MAD, ReConcile and CMD, and saying it again."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Literal

from sottovoce.nodes.state import Question
from sottovoce.nodes.views import View
from sottovoce.training import cmd, debates, mad, reconcile
from sottovoce.training.chats import Chat
from sottovoce.training.dress import dress, without_steps
from sottovoce.training.forms import Form, equal, near
from sottovoce.training.places import Place, asked_again, can_fail, close, plain
from sottovoce.training.sources import Source

RoleSkill = Literal[
    "compare",
    "claim",
    "label",
    "option",
    "dressed",
    "form_debate",
    "repair",
    "mad_debater",
    "mad_moderator",
    "mad_judge",
    "reconcile_first",
    "reconcile",
    "reconcile_convinced",
    "cmd_first",
    "cmd",
    "cmd_secretary",
]
Maker = Callable[[random.Random], Chat]
PLACES: dict[RoleSkill, Callable[[random.Random, Source], Place]] = {
    "mad_debater": mad.debater,
    "mad_moderator": mad.moderator,
    "mad_judge": mad.judge,
    "reconcile_first": reconcile.first,
    "reconcile": reconcile.discussion,
    "reconcile_convinced": reconcile.convinced,
    "cmd_first": cmd.first,
    "cmd": cmd.discussion,
    "cmd_secretary": cmd.secretary,
}
DRESSED = 0.24
"""Share of each component in the skill that is there for them."""
LONGEST = 2000
"""Characters of what is read before a reply that has to be repaired."""


def makers(source: Source) -> dict[str, Maker]:
    """What makes a chat of each skill."""
    return {
        "compare": lambda rng: close(comparison(rng, source)),
        "claim": lambda rng: close(alone(rng, source, "yes_no")),
        "label": lambda rng: close(alone(rng, source, "label")),
        "option": lambda rng: close(alone(rng, source, "option")),
        "dressed": lambda rng: close(dressed(rng, source)),
        "form_debate": lambda rng: form_debate(rng, source),
        "repair": lambda rng: close(repair(rng, source)),
        **{skill: partial(_at_once, place, source) for skill, place in PLACES.items()},
    }


def comparison(rng: random.Random, source: Source) -> Place:
    """Whether two numbers or answers are the same: claims, choices and moderators rest on it."""
    number = rng.choice((1, 1, 1, -1)) * rng.randint(0, rng.choice((20, 99, 999, 4999)))
    pools = ((str(number), str(near(rng, number))), "ABCDE", ("yes", "no", "unknown"), ("Correct", "Incorrect"))
    one, other = rng.sample(rng.choices(pools, (6, 2, 1, 1))[0], 2)
    other = rng.choice((one, other))
    asked = rng.choice(("Is {} equal to {}?", "{} = {}: is this true?")).format(one, other)
    question = Question(question=asked, kind="yes_no")
    view = View(source.prompts, question, "agent_1")
    said = f"{equal(one, other)}. The answer is {'yes' if one == other else 'no'}."
    return Place(view.independent(), said, plain(question), view.form())


def alone(rng: random.Random, source: Source, form: Form, share: float = 0.03) -> Place:
    """The question in this form, for one agent or for one that holds everybody's documents."""
    agents = debates.names(2)
    me = rng.choice((None, None, *agents))
    clothed = dress(rng, source.alone(rng, form, agents), me, source.prompts, share)
    known = clothed.problem.known(clothed.view.documents())
    return Place(clothed.view.independent(), clothed.right(known), plain(clothed.problem.question), clothed.view.form())


def dressed(rng: random.Random, source: Source) -> Place:
    """A question with components, or one so small that its answer is told at once."""
    if rng.random() < 0.8:
        return alone(rng, source, source.form(rng), DRESSED)
    clothed = without_steps(rng, source.prompts)
    return Place(clothed.view.independent(), clothed.right([]), plain(clothed.problem.question), clothed.view.form())


def form_debate(rng: random.Random, source: Source) -> Chat:
    """A debate about a claim, a label or a choice."""
    agents = debates.names(rng.choice((2, 2, 3)))
    problem = source.alone(rng, rng.choice(("yes_no", "label", "option")), agents)
    talk = debates.imagined(rng, problem, agents, rng.choice((1, 1, 2)), slips=0.4)
    return debates.seen(rng, talk, rng.choice(agents), source.prompts)


def repair(rng: random.Random, source: Source) -> Place:
    """A form that was missed, and is to be met when asked again."""
    makers = [place for name, place in PLACES.items() if name != "mad_debater"]
    while True:
        place = rng.choice(makers)(rng, source)
        if can_fail(place) and sum(len(turn.text) for turn in place.turns) <= LONGEST:
            return asked_again(rng, place, source.prompts)


def _at_once(place: Callable[[random.Random, Source], Place], source: Source, rng: random.Random) -> Chat:
    return close(place(rng, source))
