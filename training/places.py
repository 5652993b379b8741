"""A place in a discussion where somebody is to speak: what it reads, what is right, and what cannot be read."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sottovoce.channels.message import Heard, Message, Turn
from sottovoce.nodes.say import unreadable
from sottovoce.nodes.state import Question
from sottovoce.prompts import kinds
from sottovoce.prompts.render import Prompts
from sottovoce.training.chats import Chat, Key, closing


@dataclass(frozen=True)
class Reader:
    """How the product reads what is said in a place."""

    answer: Callable[[str], str | None]
    complain: Callable[[str], str]
    """What is wrong with a reply; empty where it can be read."""


def plain(question: Question) -> Reader:
    """The reader of replies in words."""
    kind, choices = question.get("kind", "number"), question.get("choices")
    return Reader(lambda text: kinds.read(text, kind, choices), unreadable(question))


@dataclass(frozen=True)
class Place:
    """Where somebody speaks next."""

    turns: Sequence[Turn]
    right: str
    """What it should say."""
    reader: Reader
    form: str
    """What the product asks for when it asks again."""
    lessons: frozenset[Key] = frozenset()
    """Own earlier messages that are right too."""


def close(place: Place) -> Chat:
    """The chat in which the right thing is said."""
    message = Message("me", 99, "say", place.right, attempt=1)
    return Chat(closing(place.turns, message), place.lessons | {message.key})


def asked_again(rng: random.Random, place: Place, prompts: Prompts) -> Place:
    """The place after something unreadable was said there, as `nodes.say` asks once more."""
    first = Message("me", 99, "say", _unreadable(rng, place))
    request = prompts.render("shared/repair", complaint=place.reader.complain(first.text), form=place.form)
    return replace(place, turns=[*place.turns, Turn("assistant", (Heard(first, own=True),)), Turn("user", request)])


def can_fail(place: Place) -> bool:
    """Whether any text would be complained of."""
    return bool(place.reader.complain(""))


def spoilt(rng: random.Random, text: str) -> str:
    """What may stand in the place of a text that was wanted: a part of it, other signs, nothing."""
    makers: tuple[Callable[[], str], ...] = (
        lambda: text[: rng.randint(1, max(1, len(text) - 2))],
        lambda: text[: rng.randint(1, max(1, len(text) - 2))],
        lambda: _stated_apart(text),
        lambda: _stated_apart(text),
        lambda: _without_a_field(rng, text),
        lambda: "".join(rng.choices(string.ascii_letters + ' {}",:.;', k=rng.randint(1, 30))),
        lambda: rng.choice(("no idea", "I do not know.", "", "?", "I agree.", "{}", "unknown")),
    )
    return rng.choice(makers)()


def _unreadable(rng: random.Random, place: Place) -> str:
    if place.reader.complain(place.right) and rng.random() < 0.3:
        return place.right  # an honest "unknown" is complained of too
    while True:
        text = spoilt(rng, place.right)
        if place.reader.complain(text):
            return text


def _fields(text: str) -> dict[str, str]:
    try:
        fields = json.loads(text)
    except json.JSONDecodeError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _stated_apart(text: str) -> str:
    """The words of an object without its signs."""
    return " ".join(_fields(text).values()) or text.split(". ")[0]


def _without_a_field(rng: random.Random, text: str) -> str:
    fields = _fields(text)
    if not fields:
        return ""
    fields.pop(rng.choice(list(fields)))
    return json.dumps(fields)
