"""MAD's debaters, moderator and judge, as `nodes.mad` lets them see a debate."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from itertools import takewhile

from sottovoce.channels.message import Message
from sottovoce.nodes import mad
from sottovoce.nodes.settings import MAD
from sottovoce.nodes.state import Question, documents_of
from sottovoce.training.chats import Key
from sottovoce.training.debates import Talk
from sottovoce.training.dress import dress
from sottovoce.training.forms import Posed, equal, read, shown
from sottovoce.training.places import Place, Reader, plain
from sottovoce.training.sources import Source, posed

Rounds = list[dict[str, Message]]


def sides(n: int) -> list[str]:
    """The names of n debaters."""
    return MAD(agents=n).speakers()


def debater(rng: random.Random, source: Source) -> Place:
    """A debater's turn: the right solution, however much disagreement is asked for."""
    talk = _talk(rng, source)
    me, last = rng.choice(talk.agents), len(talk.said) - 1
    dressed = dress(rng, posed(talk), me, source.prompts)
    context, lessons = documents_of(talk.problem.question, me), set[Key]()
    rounds: Rounds = [{} for _ in talk.said]
    for r, name in ((r, name) for r in range(last + 1) for name in talk.agents):
        right = talk.problem.reply(talk.problem.known(context))
        if (r, name) == (last, me):
            break
        message = rounds[r][name] = talk.message(r, name)
        lessons |= {message.key} if name == me and message.text == right else set()
        context.append(message.text)
    turns = mad.debater_turns(dressed.view, me, talk.agents, rounds, rng.randint(0, 3))
    return Place(turns, right, plain(dressed.problem.question), dressed.view.form(), frozenset(lessons))


def moderator(rng: random.Random, source: Source) -> Place:
    """The moderator's verdict, after its own earlier ones: it goes on until the sides give one answer."""
    talk = _talk(rng, source)
    problem, order = posed(talk), talk.agents
    open_rounds = list(takewhile(lambda spoken: _agreed(problem, spoken) is None, talk.said))
    heard = talk.said[: len(open_rounds) + 1]
    view = dress(rng, problem, "moderator", source.prompts, name="moderator").view
    verdicts = [verdict(problem, spoken) for spoken in heard]
    own = [Message("moderator", r, "moderate", text) for r, text in enumerate(verdicts[:-1])]
    rounds = [{**_messages(talk, r), **({"moderator": own[r]} if r < len(own) else {})} for r in range(len(heard))]
    return Place(
        mad.moderator_turns(view, order, rounds),
        verdicts[-1],
        _reader(mad.verdict, problem),
        mad.verdict_form(view, order),
        frozenset(message.key for message in own),
    )


def judge(rng: random.Random, source: Source) -> Place:
    """The judge's answer, worked out, after its list of the answers that were given."""
    talk = _talk(rng, source)
    problem, order = posed(talk), talk.agents
    seen = rng.choice((slice(None), slice(-1, None), slice(1)))  # all, last, first
    rounds = [_messages(talk, r) for r in range(len(talk.said))][seen]
    view = dress(rng, problem, "judge", source.prompts, name="judge").view
    texts = [message.text for spoken in rounds for message in spoken.values()]
    listed = Message("judge", len(talk.said), "list_candidates", candidates(problem, texts))
    known = problem.known([*view.documents(), *texts])
    return Place(
        mad.judge_turns(view, order, rounds, listed),
        judgement(problem, known),
        _reader(mad.judgement, problem),
        mad.judgement_form(view),
        frozenset({listed.key}),
    )


def verdict(problem: Posed, spoken: dict[str, str]) -> str:
    """The JSON of a moderator who compares the sides' answers; it says first what it compares."""
    first, *others = [shown(read(problem, text), problem.form) for text in spoken.values()]
    known = any(read(problem, text) is not None for text in spoken.values())
    agreed = _agreed(problem, spoken)
    fields = {
        mad.REASON: "; ".join(equal(first, other) for other in others) + "." if known else "Nobody knows.",
        mad.PREFERENCE: "No" if agreed is None else "Yes",
        mad.SIDE: "" if agreed is None else "Affirmative",
        mad.ANSWER: "" if agreed is None else shown(agreed, problem.form),
    }
    return json.dumps(fields)


def candidates(problem: Posed, texts: Sequence[str]) -> str:
    """The different answers, in the order in which they were first given."""
    found = [shown(answer, problem.form) for text in texts if (answer := read(problem, text)) is not None]
    *first, last = dict.fromkeys(found) or ["nothing"]
    return f"They answer {', '.join(first)}{' and ' if first else ''}{last}."


def judgement(problem: Posed, known: Sequence[str]) -> str:
    """The JSON of a judge who works it out."""
    return json.dumps({mad.REASON: problem.working(known), mad.ANSWER: problem.stated(known)})


def _talk(rng: random.Random, source: Source) -> Talk:
    n, rounds = rng.choices((2, 3), (0.8, 0.2))[0], rng.choices((1, 2, 3), (0.55, 0.3, 0.15))[0]
    return source.talk(rng, sides, n, rounds, in_turn=True)


def _reader(read: Callable[[str, Question], mad.Verdict], problem: Posed) -> Reader:
    question = problem.question
    return Reader(lambda text: read(text, question).answer, lambda text: read(text, question).complaint)


def _agreed(problem: Posed, spoken: dict[str, str]) -> str | None:
    """The one answer of all sides, if they have one."""
    answers = {read(problem, text) for text in spoken.values()}
    return answers.pop() if len(answers) == 1 else None


def _messages(talk: Talk, r: int) -> dict[str, Message]:
    return {name: talk.message(r, name) for name in talk.agents}
