"""What the model learns in each stage: one table of skills, and those of them that stand in no file of their own."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from sottovoce.training import copying, debates, problems, product, schemes
from sottovoce.training.chats import Chat
from sottovoce.training.debates import Talk, names
from sottovoce.training.problems import Form, Problem, equal, near, plain, pose
from sottovoce.training.product import Question, View, in_words
from sottovoce.training.sources import Source
from sottovoce.training.unreadable import spoilt

Maker = Callable[[random.Random, Source], Chat]
DRESSED = 0.24
"""Share of each prompt component in the skill that is there for them."""
TINY = 20
"""Largest result that is told without steps."""
LONGEST = 2000
"""Characters of what is read before a reply that has to be repaired."""


# Debates


def single(rng: random.Random, source: Source) -> Chat:
    """Arithmetic, answered alone."""
    return debates.alone(plain(rng, source.tops), "agent_1", source.prompts)


def yes_no(rng: random.Random, source: Source) -> Chat:
    """A claim, answered alone without a comparison."""
    return debates.alone(problems.claim(rng), "agent_1", source.prompts)


def debate(rng: random.Random, source: Source) -> Chat:
    """A debate about arithmetic."""
    agents = names(agents_of(rng))
    return _imagined(rng, source, plain(rng, source.tops), agents, _rounds(rng), 0.4)


def verify(rng: random.Random, source: Source) -> Chat:
    """A debate of one, who checks itself."""
    problem = rng.choice((plain(rng, source.tops), problems.split(rng, names(2))))
    talk = debates.imagined(rng, problem, names(1), _rounds(rng), slips=0.3)
    return debates.in_history(talk, "agent_1", source.prompts)


def hard(rng: random.Random, source: Source) -> Chat:
    """A debate in which one agent alone can tell the answer."""
    problem, agents = problems.hard(rng), names(agents_of(rng))
    if rng.random() < 0.2:
        return debates.alone(problem, agents[0], source.prompts)
    talk, me = debates.told_by_one(rng, problem, agents, min(_rounds(rng), 2))
    return debates.seen(rng, talk, me, source.prompts)


def split(rng: random.Random, source: Source) -> Chat:
    """A debate in which each agent knows some of the values."""
    agents = names(agents_of(rng))
    return _imagined(rng, source, problems.split(rng, agents), agents, _rounds(rng), 0.15)


def split_single(rng: random.Random, source: Source) -> Chat:
    """Values, answered by an agent that holds all of them or some."""
    agents = names(agents_of(rng))
    return debates.alone(problems.split(rng, agents), rng.choice((None, None, rng.choice(agents))), source.prompts)


def summary(rng: random.Random, source: Source) -> Chat:
    """A round to be summed up, or a debate in summaries."""
    agents = names(agents_of(rng))
    problem = plain(rng, source.tops) if rng.random() < 0.5 else problems.split(rng, agents)
    talk = debates.imagined(rng, problem, agents, rng.choice((1, 1, 2)), slips=0.3)
    make = rng.choice((debates.summed_up, debates.in_summaries))
    return make(talk, rng.choice(agents), source.prompts)


def on_policy(rng: random.Random, source: Source) -> Chat:
    """A debate that copies of the model held."""
    talk = rng.choice(source.talks)
    cut = Talk(talk.problem, talk.said[: rng.randint(1, len(talk.said))], talk.agents)
    return debates.seen(rng, cut, rng.choice(talk.agents), source.prompts)


def form_debate(rng: random.Random, source: Source) -> Chat:
    """A debate about a claim, a label or a choice."""
    agents = names(rng.choice((2, 2, 3)))
    problem = source.alone(rng, rng.choice(("yes_no", "label", "option")), agents)
    return _imagined(rng, source, problem, agents, rng.choice((1, 1, 2)), 0.4)


def agents_of(rng: random.Random) -> int:
    """How many agents a debate has."""
    return rng.choices((2, 3, 4), (0.55, 0.35, 0.1))[0]


def _rounds(rng: random.Random) -> int:
    return rng.choices((1, 2, 3), (0.5, 0.46, 0.04))[0]


def _imagined(
    rng: random.Random, source: Source, problem: Problem, agents: list[str], rounds: int, slips: float
) -> Chat:
    talk = debates.imagined(rng, problem, agents, rounds, slips)
    return debates.seen(rng, talk, rng.choice(agents), source.prompts)


# Forms of an answer


def compare(rng: random.Random, source: Source) -> Chat:
    """Whether two numbers or answers are the same: claims, choices and moderators rest on it."""
    number = rng.choice((1, 1, 1, -1)) * rng.randint(0, rng.choice((20, 99, 999, 4999)))
    pools = ((str(number), str(near(rng, number))), "ABCDE", ("yes", "no", "unknown"), ("Correct", "Incorrect"))
    one, other = rng.sample(rng.choices(pools, (6, 2, 1, 1))[0], 2)
    other = rng.choice((one, other))
    asked = rng.choice(("Is {} equal to {}?", "{} = {}: is this true?")).format(one, other)
    view = View(source.prompts, Question(question=asked, kind="yes_no"), "agent_1")
    return Chat(in_words(view), f"{equal(one, other)}. The answer is {'yes' if one == other else 'no'}.")


def alone(rng: random.Random, source: Source, form: Form, share: float = 0.03) -> Chat:
    """The question in this form, for one agent or for one that holds everybody's documents."""
    agents = names(2)
    me = rng.choice((None, None, *agents))
    problem = source.alone(rng, form, agents)
    view = source.view(rng, problem, me, share)
    return Chat(in_words(view), problem.reply(problem.known(view.documents())))


def dressed(rng: random.Random, source: Source) -> Chat:
    """A question with components, or one so small that its answer is told at once."""
    return alone(rng, source, source.form(rng), DRESSED) if rng.random() < 0.8 else without_steps(rng, source)


def without_steps(rng: random.Random, source: Source) -> Chat:
    """A very small sum or difference whose answer is told at once."""
    while True:
        small = plain(rng, (9, 12))
        if small.expression.operators in (("+",), ("-",)) and 0 <= small.expression.value <= TINY:
            break
    problem = pose(rng, small, "number")
    view = source.view(rng, problem, "agent_1", 0.1)
    view = replace(view, components=view.components - {"chain_of_thought"})
    return Chat(in_words(view), problem.ending([]))


def repair(rng: random.Random, source: Source) -> Chat:
    """A form that was missed, and is to be met when asked again."""
    while True:
        chat = rng.choice(REPAIRED)(rng, source)
        if chat.place.complain("") and sum(len(turn.text) for turn in chat.place.turns) <= LONGEST:
            return replace(chat, place=product.asked_again(source.prompts, chat.place, _unreadable(rng, chat)))


def _unreadable(rng: random.Random, chat: Chat) -> str:
    if chat.place.complain(chat.right) and rng.random() < 0.3:
        return chat.right  # an honest "unknown" is complained of too
    while True:
        text = spoilt(rng, chat.right)
        if chat.place.complain(text):
            return text


REPAIRED: list[Maker] = [
    schemes.mad_moderator,
    schemes.mad_judge,
    schemes.reconcile_first,
    schemes.reconcile,
    schemes.reconcile_convinced,
    schemes.cmd_first,
    schemes.cmd,
    schemes.cmd_secretary,
]
STAGES = ("copy", "basics", "discussion", "roles")
SKILLS: dict[str, tuple[Maker, tuple[float, float, float, float]]] = {
    "repeat": (copying.repeat, (0.45, 0.03, 0.01, 0.01)),
    "look_up": (copying.look_up, (0.55, 0.05, 0.03, 0.02)),
    "single": (single, (0, 0.60, 0.45, 0.55)),
    "yes_no": (yes_no, (0, 0.03, 0.02, 0)),
    "debate": (debate, (0, 0.08, 0.04, 0.03)),
    "verify": (verify, (0, 0.01, 0.01, 0.01)),
    "hard": (hard, (0, 0.03, 0.03, 0.02)),
    "split": (split, (0, 0.10, 0.07, 0.05)),
    "split_single": (split_single, (0, 0.04, 0.03, 0.02)),
    "summary": (summary, (0, 0.03, 0.03, 0.02)),
    "on_policy": (on_policy, (0, 0, 0.28, 0.03)),
    "compare": (compare, (0, 0, 0, 0.25)),
    "claim": (partial(alone, form="yes_no"), (0, 0, 0, 0.04)),
    "label": (partial(alone, form="label"), (0, 0, 0, 0.04)),
    "option": (partial(alone, form="option"), (0, 0, 0, 0.05)),
    "dressed": (dressed, (0, 0, 0, 0.04)),
    "form_debate": (form_debate, (0, 0, 0, 0.03)),
    "mad_debater": (schemes.mad_debater, (0, 0, 0, 0.03)),
    "mad_moderator": (schemes.mad_moderator, (0, 0, 0, 0.05)),
    "mad_judge": (schemes.mad_judge, (0, 0, 0, 0.03)),
    "reconcile_first": (schemes.reconcile_first, (0, 0, 0, 0.02)),
    "reconcile": (schemes.reconcile, (0, 0, 0, 0.03)),
    "reconcile_convinced": (schemes.reconcile_convinced, (0, 0, 0, 0.01)),
    "cmd_first": (schemes.cmd_first, (0, 0, 0, 0.01)),
    "cmd": (schemes.cmd, (0, 0, 0, 0.03)),
    "cmd_secretary": (schemes.cmd_secretary, (0, 0, 0, 0.01)),
    "repair": (repair, (0, 0, 0, 0.02)),
}
"""What makes a chat, and its share in each stage.

Copying comes first and never leaves; single problems stay above 35 %."""
DIETS = {
    stage: {name: share for name, (_, shares) in SKILLS.items() if (share := shares[i])}
    for i, stage in enumerate(STAGES)
}


def chat(rng: random.Random, source: Source, diet: dict[str, float]) -> Chat:
    """One chat of a diet: shares of skills."""
    (skill,) = rng.choices(list(diet), list(diet.values()))
    return SKILLS[skill][0](rng, source)
