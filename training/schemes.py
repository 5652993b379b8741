"""The roles of MAD, ReConcile and CMD: what each reads in a discussion, and its right reply there."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile

from sottovoce.channels.message import words
from sottovoce.prompts.kinds import lettered
from sottovoce.prompts.render import Prompts
from sottovoce.training import problems, product
from sottovoce.training.data import Chat
from sottovoce.training.debates import Talk, names, next_of
from sottovoce.training.problems import UNKNOWN, Form, Problem, equal, pose, spoilt
from sottovoce.training.product import SECRETARY, PromptBuilder, Question, Said, documents_of, grouped
from sottovoce.training.sources import Source

SAMPLES = 0.06  # share of ReConcile's chats with one or two convincing samples
SPOILT = 0.06  # share of unreadable answers of others in ReConcile
HINTS = ("Products come before sums.", "Check each step.", "Look at all digits.")
AGREES, DIFFERS = 0.6, 1.5
"""Factors on the error probability for an equal or different answer of another agent: copies err together."""
BANDS = (99, 300, 500)
ACCURACY = ((0.98, 0.94), (0.92, 0.89), (0.88, 0.78), (0.74, 0.52))
"""Share of right greedy answers, measured after the stage `discussion` (4000 problems): by the largest number of
the question (up to 99, 300, 500, more), and by whether any result is below zero.
"""


def mad_debater(rng: random.Random, source: Source) -> Chat:
    """Return a debater's turn: the right solution, whatever disagreement the prompt asks for."""
    talk = _in_turn(rng, source)
    me = rng.choice(talk.agents)
    view = source.view(rng, talk.problem, me)
    said = [*talk.said[:-1], dict(takewhile(lambda statement: statement[0] != me, talk.said[-1].items()))]
    place = product.mad_debater(view, talk.agents, said, rng.randint(0, 3))
    return Chat(place, *next_of(talk.problem, me, [each for spoken in said for each in spoken.items()]))


def mad_moderator(rng: random.Random, source: Source) -> Chat:
    """Return the moderator's turn after its own earlier verdicts; it continues until the sides agree."""
    talk = _in_turn(rng, source)
    open_rounds = list(takewhile(lambda spoken: _agreed(talk.problem, spoken) is None, talk.said))
    heard = talk.said[: len(open_rounds) + 1]
    view = source.view(rng, talk.problem, "moderator")
    *own, right = [verdict(talk.problem, spoken) for spoken in heard]
    return Chat(product.mad_moderator(view, talk.agents, heard, own), right, frozenset(range(len(own))))


def mad_judge(rng: random.Random, source: Source) -> Chat:
    """Return the judge's turn with a worked-out answer, after its list of the answers given."""
    talk = _in_turn(rng, source)
    said = talk.said[rng.choice((slice(None), slice(-1, None), slice(1)))]  # all, last, first
    view = source.view(rng, talk.problem, "judge")
    texts = [text for spoken in said for text in spoken.values()]
    place = product.mad_judge(view, talk.agents, said, candidates(talk.problem, texts))
    known = talk.problem.known([*view.documents(), *texts])
    right = product.mad_json(talk.problem.working(known), talk.problem.stated(known))
    return Chat(place, right, frozenset({0}))


def verdict(problem: Problem, spoken: Said) -> str:
    """Return the JSON of a moderator that compares the sides' answers, beginning with the comparison."""
    first, *others = [problem.shown(problem.read(text)) for text in spoken.values()]
    compared = "; ".join(equal(first, answer) for answer in others) + "."
    if (agreed := _agreed(problem, spoken)) is not None:
        return product.mad_json(compared, problem.shown(agreed), "Yes", "Affirmative")
    nobody = all(problem.read(text) is None for text in spoken.values())
    return product.mad_json("Nobody knows." if nobody else compared, "", "No", "")


def candidates(problem: Problem, texts: Sequence[str]) -> str:
    """Return the different answers, in the order in which they were first given."""
    answers = [problem.shown(answer) for text in texts if (answer := problem.read(text)) is not None]
    *first, last = dict.fromkeys(answers) or ["nothing"]
    return f"They answer {', '.join(first)}{' and ' if first else ''}{last}."


def _in_turn(rng: random.Random, source: Source) -> Talk:
    n, rounds = rng.choices((2, 3), (0.8, 0.2))[0], rng.choices((1, 2, 3), (0.55, 0.3, 0.15))[0]
    return source.talk(rng, lambda n: product.speakers("mad", agents=n), n, rounds, in_turn=True)


def _agreed(problem: Problem, spoken: Said) -> str | None:
    """Return the one answer of all sides, or None."""
    answers = {problem.read(text) for text in spoken.values()}
    return answers.pop() if len(answers) == 1 else None


def reconcile_first(rng: random.Random, source: Source) -> Chat:
    """Return a first answer."""
    problem, view = _alone(rng, source)
    place = product.reconcile_place(view, None, _samples(rng, problem.form, source.prompts))
    return Chat(place, sure(problem, problem.known(view.documents())))


def reconcile(rng: random.Random, source: Source) -> Chat:
    """Return a later answer, after all answers of the previous round."""
    talk = source.talk(rng, names, rng.choices((2, 3, 4), (0.3, 0.5, 0.2))[0], rng.choice((1, 1, 2)))
    problem, me = talk.problem, rng.choice(talk.agents)
    view = source.view(rng, problem, me)
    heard = {name: heard_surely(rng, problem, talk.said[-1][name]) for name in talk.agents}
    place = product.reconcile_place(view, heard, _samples(rng, problem.form, source.prompts))
    answers = [place.answer(text) for name, text in heard.items() if name != me]
    known = problem.known([*view.documents(), *heard.values()])
    return Chat(place, sure(problem, known, [None if answer is None else problem.shown(answer) for answer in answers]))


def reconcile_convinced(rng: random.Random, source: Source) -> Chat:
    """Return the answer after an explanation by someone who knows."""
    problem = source.alone(rng, source.form(rng))
    explanation = problem.reply(list(problem.facts))
    question: Question = {**problem.question, "solution": explanation}
    view = source.view(rng, replace(problem, question=question), "agent_1")
    known = problem.known([*view.documents(), explanation])
    return Chat(product.reconcile_convinced(view), sure(problem, known, [problem.stated(known)]))


def sure(problem: Problem, known: Sequence[str], others: Sequence[str | None] = ()) -> str:
    """Return the right JSON."""
    return product.reconcile_json(problem.working(known), problem.stated(known), confidence(problem, known, others))


def confidence(problem: Problem, known: Sequence[str], others: Sequence[str | None] = ()) -> str:
    """Return how often the model is right on such problems, 0 to 1 in steps of 0.05; 0.1 if the answer is unknown.

    `others` are the answers of the other agents, as they write them; None means no answer.
    """
    answer = problem.stated(known)
    if answer.lower() == UNKNOWN:
        return "0.1"
    largest = max(problem.expression.operands)
    below = any(result < 0 for *_, result in problem.expression.steps())
    error = 1 - ACCURACY[sum(largest > top for top in BANDS)][below]
    for answer_of_other in filter(None, others):
        error *= AGREES if answer_of_other.lower() == answer.lower() else DIFFERS
    return f"{round((1 - min(error, 0.6)) / 0.05) * 0.05:.4g}"


def heard_surely(rng: random.Random, problem: Problem, text: str) -> str:
    """Return a statement as ReConcile's JSON, with a random confidence, or unreadable."""
    if (parts := problem.parts(text)) is None:
        return text
    sureness = ("0.5", "0.75", "0.8", "0.9", "0.9", "0.95", "1")
    text = product.reconcile_json(*parts, "0.1" if problem.read(text) is None else rng.choice(sureness))
    return spoilt(rng, text) if rng.random() < SPOILT else text


def _samples(rng: random.Random, form: Form, prompts: Prompts) -> list[str]:
    samples = []
    for _ in range(rng.choice((1, 1, 2)) if rng.random() < SAMPLES else 0):
        shown = pose(rng, problems.plain(rng), form)
        reply = product.reconcile_json(shown.working([]), shown.stated([]), "1.0")  # as prompts show them
        slots = {"question": shown.question["question"], "choices": lettered(shown.offered), "reply": reply}
        samples.append(words(prompts.render("reconcile/sample", **slots)))
    return samples


def cmd_first(rng: random.Random, source: Source) -> Chat:
    """Return a first answer."""
    problem, view = _alone(rng, source)
    return Chat(product.cmd_place(view), problem.reply(problem.known(view.documents())))


def cmd(rng: random.Random, source: Source) -> Chat:
    """Return a later answer, after the full answers of the agent's group and a tally of the others'."""
    n = rng.choices((1, 2, 3, 4, 5, 6, 7, 9, 12), (1, 2, 3, 3, 3, 6, 1, 1, 1))[0]
    talk = source.talk(rng, names, n, rng.choice((1, 1, 2)))
    problem, me, spoken = talk.problem, rng.choice(talk.agents), talk.said[-1]
    view = source.view(rng, problem, me)
    groups = grouped(talk.agents) if rng.random() < 0.8 else _by_lot(rng, talk.agents)
    mine = next(group for group in groups if me in group)
    known = problem.known([*view.documents(), *(spoken[name] for name in mine)])
    was_right = len(talk.said) == 1 and spoken[me] == problem.reply(problem.known(documents_of(problem.question, me)))
    return Chat(product.cmd_place(view, spoken, groups), problem.reply(known), frozenset({0} if was_right else ()))


def cmd_secretary(rng: random.Random, source: Source) -> Chat:
    """Return the secretary's answer, worked out from the question and one agent's message for each view."""
    talk = source.talk(rng, names, rng.choice((2, 3, 4, 6, 6)), rng.choice((1, 1, 2)))
    question: Question = {**talk.problem.question}
    if "documents" in question and rng.random() < 0.5:
        question["documents"] = documents_of(question, None)  # all agents have them
    if rng.random() < 0.1:
        question["hints"] = [rng.choice(HINTS)]
    problem = replace(talk.problem, question=question)
    view = source.view(rng, problem, SECRETARY)
    place = product.cmd_place(view, talk.said[-1])
    heard = [part.text for turn in place.turns for part in turn.parts if not isinstance(part, str)]
    return Chat(place, problem.reply(problem.known([*view.documents(), *heard])))


def _by_lot(rng: random.Random, agents: Sequence[str]) -> list[list[str]]:
    groups, at = list[list[str]](), 0
    while at < len(agents):
        groups.append(list(agents[at : at + rng.randint(1, 3)]))
        at += len(groups[-1])
    return groups


def _alone(rng: random.Random, source: Source) -> tuple[Problem, PromptBuilder]:
    problem = source.alone(rng, source.form(rng))
    return problem, source.view(rng, problem, "agent_1")


_MAKERS = [mad_debater, mad_moderator, mad_judge, reconcile_first, reconcile, reconcile_convinced]
_MAKERS += [cmd_first, cmd, cmd_secretary]
ROLES: dict[str, Callable[[random.Random, Source], Chat]] = {maker.__name__: maker for maker in _MAKERS}
