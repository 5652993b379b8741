"""The skills that the model learns in each stage: a table, and the skills that belong to no scheme.

Repeating and looking up come first: without them a small model never learns to read messages.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from sottovoce.datasets.arithmetic import MIXED, draw, listed, solution
from sottovoce.training import debates, problems, product, schemes
from sottovoce.training.data import Chat
from sottovoce.training.debates import Talk, names, seen, some
from sottovoce.training.problems import Form, Problem, equal, near, plain, pose, spoilt
from sottovoce.training.product import Place, Question, Turn, in_words, seen_by, trained_prompts
from sottovoce.training.sources import Source

Maker = Callable[[random.Random, Source], Chat]
ALPHABET = [*string.digits * 3, *string.ascii_lowercase, " + ", " - ", " * ", " = ", "; ", ". ", "\n"]
DRESSED = 0.24  # share of each prompt component in the skill that practices them
TINY = 20  # largest result that is given without steps
LONGEST = 2000  # maximum characters read before a reply that must be repaired


def _repeat(rng: random.Random, source: Source) -> Chat:
    text = "".join(rng.choices(ALPHABET, k=rng.randint(4, 50))).strip() or "7"
    return Chat(Place([Turn("user", (text,))]), text)


def _look_up(rng: random.Random, source: Source) -> Chat:
    """Return values scattered over several lines, with a request for some of them in another order."""
    values = {name: rng.randint(1, 99) for name in rng.sample(string.ascii_lowercase, rng.randint(2, 10))}
    lines = [*_lines(rng, values)] + [_noise(rng) for _ in range(rng.choice((0, 0, 1, 3)))]
    rng.shuffle(lines)
    names_asked = rng.sample(list(values), rng.randint(1, len(values)))
    turn = Turn("user", ("\n".join([*lines, ", ".join(names_asked)]),))
    return Chat(Place([turn]), listed({name: values[name] for name in names_asked}) + ".")


def _lines(rng: random.Random, values: dict[str, int]) -> Iterator[str]:
    left = list(values.items())
    while left:
        size = rng.choice((1, 1, 2, 3))
        yield f"{'You know: ' if size == 1 and rng.random() < 0.5 else ''}{listed(dict(left[:size]))}."
        del left[:size]


def _noise(rng: random.Random) -> str:
    unknown = ", ".join(rng.sample(string.ascii_lowercase, rng.randint(1, 3)))
    makers: list[Callable[[], str]] = [
        lambda: f"I do not know {unknown}. The answer is unknown.",
        lambda: solution(draw(rng, MIXED, split="train").steps()),
        lambda: "".join(rng.choices(string.digits, k=rng.randint(2, 12))),
    ]
    return rng.choice(makers)()


def _debate(rng: random.Random, source: Source) -> Chat:
    agents = some(rng)
    return _imagined(rng, source, plain(rng, source.tops), agents, _rounds(rng), 0.4)


def _verify(rng: random.Random, source: Source) -> Chat:
    """Return a debate of one agent, which checks itself."""
    problem = rng.choice((plain(rng, source.tops), problems.split(rng, names(2))))
    return _imagined(rng, source, problem, names(1), _rounds(rng), 0.3)


def _hard(rng: random.Random, source: Source) -> Chat:
    """Return a debate in which only one agent knows the answer, as seen by another."""
    problem, agents = problems.hard(rng), some(rng)
    if rng.random() < 0.2:
        return _alone_with(problem, agents[0], source)
    rounds, (expert, me) = min(_rounds(rng), 2), rng.sample(agents, 2)
    right = problem.reply(list(problem.facts))
    first = {agent: right if agent == expert else problem.reply([]) for agent in agents}
    return seen(rng, Talk(problem, [first, dict.fromkeys(agents, right)][:rounds], agents), me, source.prompts)


def _split(rng: random.Random, source: Source) -> Chat:
    agents = some(rng)
    return _imagined(rng, source, problems.split(rng, agents), agents, _rounds(rng), 0.15)


def _split_single(rng: random.Random, source: Source) -> Chat:
    agents = some(rng)
    return _alone_with(problems.split(rng, agents), rng.choice((None, None, rng.choice(agents))), source)


def _summary(rng: random.Random, source: Source) -> Chat:
    """Return a round to summarize, or a debate in summaries."""
    agents = some(rng)
    problem = plain(rng, source.tops) if rng.random() < 0.5 else problems.split(rng, agents)
    talk = debates.imagined(rng, problem, agents, rng.choice((1, 1, 2)), slips=0.3)
    sums_up, me = rng.choice((True, False)), rng.choice(agents)
    if not sums_up:
        return debates.in_history(talk, me, source.prompts, summed_up=True)
    turns = product.summarise(seen_by(me, problem.question, source.prompts), talk.said[-1])
    return Chat(Place(turns), debates.summary(problem, me, talk.said[-1]))


def _on_policy(rng: random.Random, source: Source) -> Chat:
    """Return a debate between copies of the model."""
    talk = rng.choice(source.talks)
    cut = replace(talk, said=talk.said[: rng.randint(1, len(talk.said))])
    return seen(rng, cut, rng.choice(talk.agents), source.prompts)


def _form_debate(rng: random.Random, source: Source) -> Chat:
    agents = names(rng.choice((2, 2, 3)))
    problem = source.alone(rng, rng.choice(("yes_no", "label", "option")), agents)
    return _imagined(rng, source, problem, agents, rng.choice((1, 1, 2)), 0.4)


def _rounds(rng: random.Random) -> int:
    return rng.choices((1, 2, 3), (0.5, 0.46, 0.04))[0]


def _imagined(
    rng: random.Random, source: Source, problem: Problem, agents: list[str], rounds: int, slips: float
) -> Chat:
    talk = debates.imagined(rng, problem, agents, rounds, slips)
    if len(agents) == 1:
        return debates.in_history(talk, agents[0], source.prompts)
    return seen(rng, talk, rng.choice(agents), source.prompts)


def alone(rng: random.Random, source: Source, form: Form, share: float = 0.03) -> Chat:
    """Return the question in this answer format, for one agent or for one that has all documents."""
    me = rng.choice((None, None, *names(2)))
    problem = source.alone(rng, form)
    return debates.alone(problem, source.view(rng, problem, me, share))


def _alone_with(problem: Problem, me: str | None, source: Source) -> Chat:
    return debates.alone(problem, seen_by(me, problem.question, source.prompts))


def _compare(rng: random.Random, source: Source) -> Chat:
    """Return a comparison of two numbers or answers, which claims, choices and moderators depend on."""
    number = rng.choice((1, 1, 1, -1)) * rng.randint(0, rng.choice((20, 99, 999, 4999)))
    pools = ((str(number), str(near(rng, number))), "ABCDE", ("yes", "no", "unknown"), ("Correct", "Incorrect"))
    left, right = rng.sample(rng.choices(pools, (6, 2, 1, 1))[0], 2)
    right = rng.choice((left, right))
    text = rng.choice(("Is {} equal to {}?", "{} = {}: is this true?")).format(left, right)
    view = seen_by("agent_1", Question(question=text, kind="yes_no"), source.prompts)
    return Chat(in_words(view), f"{equal(left, right)}. The answer is {'yes' if left == right else 'no'}.")


def _dressed(rng: random.Random, source: Source) -> Chat:
    """Return a question with prompt components, or one so easy that its answer is given at once."""
    return alone(rng, source, source.form(rng), DRESSED) if rng.random() < 0.8 else without_steps(rng, source)


def without_steps(rng: random.Random, source: Source) -> Chat:
    """Return a very small sum or difference whose answer is given at once."""
    small = plain(rng, (9, 12))
    while small.expression.operators not in (("+",), ("-",)) or not 0 <= small.expression.value <= TINY:
        small = plain(rng, (9, 12))
    problem = pose(rng, small, "number")
    view = source.view(rng, problem, "agent_1", 0.1)
    return Chat(in_words(replace(view, components=view.components - {"chain_of_thought"})), problem.answer_sentence([]))


def _repair(rng: random.Random, source: Source) -> Chat:
    """Return a retry in which the reply must meet the format that it missed before."""
    makers = [maker for maker in schemes.ROLES.values() if maker != schemes.mad_debater]
    while True:
        chat = rng.choice(makers)(rng, source)
        place = chat.place
        if not place.problem("") or sum(len(turn.text) for turn in place.turns) > LONGEST:
            continue
        honest = place.problem(chat.right) and rng.random() < 0.3  # "unknown" is rejected too
        said = chat.right if honest else _unread(rng, place, spoilt(rng, chat.right))
        return replace(chat, place=product.asked_again(source.prompts, place, said))


def _answer_turn(rng: random.Random, source: Source) -> Chat:
    """Return a request for the answer alone, after a reply without one; unknown if no reply has all steps."""
    problem, me = source.alone(rng, source.form(rng)), rng.choice((None, *names(2)))
    view = source.view(rng, problem, me)
    place, known = in_words(view), problem.known(view.documents())
    if rng.random() < 0.2:
        place = product.reconcile_place(view)
        place = product.asked_again(source.prompts, place, _unread(rng, place, schemes.sure(problem, known)))
    steps = problem.working(known)
    said = _unread(rng, place, rng.choice((steps, f"{steps} The answer is", problem.reply(known))))
    place = product.answer_turn_of(view, place, said)
    worked_out = any(steps in turn.text for turn in place.turns if turn.role == "assistant")
    return Chat(place, f" {problem.stated(known) if worked_out else problem.shown(None)}")


def _unread(rng: random.Random, place: Place, text: str) -> str:
    """Return the text if it is unreadable in this place, else a spoilt version of it."""
    said = text
    while not place.problem(said):
        said = spoilt(rng, text)
    return said


SHARES = {
    "mad_moderator": 0.05,
    "reconcile_first": 0.02,
    "reconcile_convinced": 0.01,
    "cmd_first": 0.01,
    "cmd_secretary": 0.01,
}
"""Shares of roles in the last stage; the others have 0.03."""
STAGES = ("copy", "basics", "discussion", "roles")
SKILLS: dict[str, tuple[Maker, tuple[float, float, float, float]]] = {
    "repeat": (_repeat, (0.45, 0.03, 0.01, 0.01)),
    "look_up": (_look_up, (0.55, 0.05, 0.03, 0.02)),
    "single": (lambda rng, source: _alone_with(plain(rng, source.tops), "agent_1", source), (0, 0.60, 0.45, 0.55)),
    "yes_no": (lambda rng, source: _alone_with(problems.claim(rng), "agent_1", source), (0, 0.03, 0.02, 0)),
    "debate": (_debate, (0, 0.08, 0.04, 0.03)),
    "verify": (_verify, (0, 0.01, 0.01, 0.01)),
    "hard": (_hard, (0, 0.03, 0.03, 0.02)),
    "split": (_split, (0, 0.10, 0.07, 0.05)),
    "split_single": (_split_single, (0, 0.04, 0.03, 0.02)),
    "summary": (_summary, (0, 0.03, 0.03, 0.02)),
    "on_policy": (_on_policy, (0, 0, 0.28, 0.03)),
    "compare": (_compare, (0, 0, 0, 0.25)),
    "claim": (partial(alone, form="yes_no"), (0, 0, 0, 0.04)),
    "label": (partial(alone, form="label"), (0, 0, 0, 0.04)),
    "option": (partial(alone, form="option"), (0, 0, 0, 0.05)),
    "dressed": (_dressed, (0, 0, 0, 0.04)),
    "form_debate": (_form_debate, (0, 0, 0, 0.03)),
    **{name: (maker, (0, 0, 0, SHARES.get(name, 0.03))) for name, maker in schemes.ROLES.items()},
    "repair": (_repair, (0, 0, 0, 0.02)),
    "answer_turn": (_answer_turn, (0, 0, 0, 0.03)),
}
"""The maker of a chat, and its share in each stage. Copying is in all stages; single problems stay above 35 %."""
DIETS = {
    stage: {name: share for name, (_, shares) in SKILLS.items() if (share := shares[i])}
    for i, stage in enumerate(STAGES)
}


def chat(rng: random.Random, source: Source, stage: str, *without: str) -> Chat:
    """Return one chat of a stage."""
    diet = {skill: share for skill, share in DIETS[stage].items() if skill not in without}
    (skill,) = rng.choices(list(diet), list(diet.values()))
    return SKILLS[skill][0](rng, source)


def corpus(seed: int = 0, n: int = 3000) -> list[str]:
    """Return texts for the tokenizer: rendered prompts, the replies to them, and the requests for an answer format."""
    rng, source = random.Random(f"{seed}/tokenizer"), Source(trained_prompts())
    texts: list[str] = []
    for example in (chat(rng, source, stage, "repeat", "on_policy") for stage in ("basics", "roles") for _ in range(n)):
        parts = [part for turn in example.place.turns for part in turn.parts]
        texts += [
            *(part if isinstance(part, str) else part.text for part in parts),
            example.place.prefill,
            example.right,
        ]
    forms = [name for name in source.prompts.names() if name.startswith("answers/")]
    wordings = [str(part) for name in forms for part in source.prompts.render(name, steps=True, choices=[])]
    return [*texts, *[f"{role}\n" for role in ("system", "user", "assistant")] * n, *wordings * 20]
