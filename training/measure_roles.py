"""`python -m sottovoce.training.measure_roles`: forms and roles, one reply at a time, on held-out expressions.

Prompts come from the product's own views and replies are read by its own readers. What was said before is
imagined: right, with a slip, or unreadable, as in training. Replies are greedy.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial

from sottovoce.models import load
from sottovoce.prompts.render import Prompts
from sottovoce.prompts.structured import read_confidence, read_json
from sottovoce.training.chats import Chat, replies
from sottovoce.training.measure import SEED
from sottovoce.training.problems import UNKNOWN
from sottovoce.training.report import Result, command, interval, share, table
from sottovoce.training.skills import SKILLS, Maker, alone
from sottovoce.training.sources import Source

TOPS = (99, 300, 700)
"""Largest numbers, a third of the questions each."""
LONGEST = 256
ROWS: dict[str, tuple[str, Maker]] = {
    "number": ("a number", partial(alone, form="number")),
    "yes_no": ("yes or no", partial(alone, form="yes_no")),
    "label": ("a label", partial(alone, form="label")),
    "option": ("a choice", partial(alone, form="option")),
    "debater": ("MAD, debater", SKILLS["mad_debater"][0]),
    "moderator": ("MAD, moderator: do the sides agree?", SKILLS["mad_moderator"][0]),
    "judge": ("MAD, judge", SKILLS["mad_judge"][0]),
    "reconcile-first": ("ReConcile, first answer", SKILLS["reconcile_first"][0]),
    "reconcile": ("ReConcile, after a discussion", SKILLS["reconcile"][0]),
    "convinced": ("ReConcile, after an explanation", SKILLS["reconcile_convinced"][0]),
    "cmd": ("CMD, after a discussion", SKILLS["cmd"][0]),
    "secretary": ("CMD, secretary", SKILLS["cmd_secretary"][0]),
    "repair": ("asked again after an unreadable reply", SKILLS["repair"][0]),
}


def ask(name: str, n: int) -> list[Chat]:
    """The places of a row with what is right there, the same ones whenever they are made."""
    source, rng = Source(Prompts(), TOPS, part="held_out"), random.Random(f"{SEED}/{name}")
    return [ROWS[name][1](rng, source) for _ in range(n)]


def measure(name: str, n: int, model: str = "bundled") -> Result:
    """What the model says in the places of a row."""
    asked = ask(name, n)
    return read(asked, replies(load(model), [chat.place.turns for chat in asked], LONGEST, 0.0))


def read(asked: Sequence[Chat], texts: Sequence[str]) -> Result:
    """Which replies can be read (or are rightly without an answer), which are right, and how sure they state to be."""
    result: Result = {"readable": [], "right": [], "sure": []}
    for chat, text in zip(asked, texts, strict=True):
        place = chat.place
        readable = not place.complain(text) or bool(place.complain(chat.right))
        stated = read_json(text, ("confidence_level",)).found.get("confidence_level")
        result["readable"].append(readable)
        result["right"].append(readable and place.answer(text) == place.answer(chat.right))
        result["sure"].append(None if (place.answer(text) or UNKNOWN) == UNKNOWN else read_confidence(stated))
    return result


def tables(results: dict[str, Result]) -> str:
    """The measured rows in markdown."""
    return table(
        "one reply, held out | readable | right | 95 % | sure: right, wrong | row",
        [_cells(name, title, **results[name]) for name, (title, _) in ROWS.items() if name in results],
    )


def _cells(name: str, title: str, readable: list[bool], right: list[bool], sure: list[float | None]) -> list[str]:
    """The last but one: the mean stated confidence of right answers, and of wrong ones."""
    said = [(stated, good) for stated, good in zip(sure, right, strict=True) if stated is not None]
    groups = [[stated for stated, good in said if good == wanted] for wanted in (True, False)] if said else []
    means = ", ".join(f"{sum(group) / len(group):.2f}" if group else "-" for group in groups)
    return [title, share(readable), share(right), interval(right), means, f"`{name}`"]


if __name__ == "__main__":
    about = "Measure forms of an answer and roles on held-out expressions: some 20 seconds for a row of 500."
    command("measure_roles", about, list(ROWS), measure, tables)
