"""`python -m sottovoce.training.measure_roles`: single replies in answer formats and roles, on held-out expressions.

The product's prompt builders make the prompts, and its readers parse the replies. Earlier messages are imagined, as in
training: right, with a slip, or unreadable. Replies are greedy.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sottovoce.analysis.statistics import share
from sottovoce.core.errors import choose
from sottovoce.models import load
from sottovoce.prompts.structured import read_confidence, read_json
from sottovoce.report.tables import percent, share_cells, table
from sottovoce.training.data import Chat, replies
from sottovoce.training.problems import UNKNOWN
from sottovoce.training.product import trained_prompts
from sottovoce.training.skills import SKILLS, alone
from sottovoce.training.sources import Source

SEED = 20_000  # of the expressions; the data of a training run have other seeds and the other split
WORK = Path(__file__).parent / "work"
Result = dict[str, list[Any]]  # one list per field, with an item per place; Any: booleans, or numbers or None
TOPS = (99, 300, 700)  # largest numbers; each for a third of the questions
LONGEST = 256
ROWS = {
    "number": ("a number", "number"),
    "yes_no": ("yes or no", "claim"),
    "label": ("a label", "label"),
    "option": ("a choice", "option"),
    "debater": ("MAD, debater", "mad_debater"),
    "moderator": ("MAD, moderator: do the sides agree?", "mad_moderator"),
    "judge": ("MAD, judge", "mad_judge"),
    "reconcile-first": ("ReConcile, first answer", "reconcile_first"),
    "reconcile": ("ReConcile, after a discussion", "reconcile"),
    "convinced": ("ReConcile, after an explanation", "reconcile_convinced"),
    "cmd": ("CMD, after a discussion", "cmd"),
    "secretary": ("CMD, secretary", "cmd_secretary"),
    "repair": ("asked again after an unreadable reply", "repair"),
    "answer-turn": ("the answer alone, after a reply without one", "answer_turn"),
}
"""By name: a title, and the skill that is measured."""


def places_of(name: str, n: int) -> list[Chat]:
    """Return the places of a row with the right replies, the same ones in every call."""
    source, rng = Source(trained_prompts(), TOPS, part="held_out"), random.Random(f"{SEED}/{name}")
    make = SKILLS[ROWS[name][1]][0] if name != "number" else partial(alone, form="number")
    return [make(rng, source) for _ in range(n)]


def measure(name: str, n: int, model: str = "bundled") -> Result:
    """Return the result of the model's replies in the places of a row."""
    chats = places_of(name, n)
    return read(chats, replies(load(model), [chat.place for chat in chats], LONGEST, 0.0))


def read(chats: Sequence[Chat], texts: Sequence[str]) -> Result:
    """Return which replies are readable (or rightly without an answer), which are right, and the stated confidence."""
    result: Result = {"readable": [], "right": [], "sure": []}
    for chat, text in zip(chats, texts, strict=True):
        place = chat.place
        readable = not place.problem(text) or bool(place.problem(chat.right))
        stated = read_json(text, ("confidence_level",)).values.get("confidence_level")
        result["readable"].append(readable)
        result["right"].append(readable and place.answer(text) == place.answer(chat.right))
        result["sure"].append(None if (place.answer(text) or UNKNOWN) == UNKNOWN else read_confidence(stated))
    return result


def tables(results: dict[str, Result]) -> str:
    """Return the measured rows as a table in Markdown."""
    return table(
        "one reply, held out | readable | right | 95 % | sure: right, wrong | row",
        [_cells(name, title, **results[name]) for name, (title, _) in ROWS.items() if name in results],
    )


def _cells(name: str, title: str, readable: list[bool], right: list[bool], sure: list[float | None]) -> list[str]:
    """Return the cells of a row; the last but one is the mean stated confidence of right and of wrong answers."""
    said = [(stated, good) for stated, good in zip(sure, right, strict=True) if stated is not None]
    groups = [[stated for stated, good in said if good == wanted] for wanted in (True, False)] if said else []
    means = ", ".join(f"{sum(group) / len(group):.2f}" if group else "-" for group in groups)
    return [title, percent(share(readable).value), *share_cells(share(right)), means, f"`{name}`"]


def results_of(model: str) -> Path:
    """Return the file of a model's rows; each model has its own, so that no table mixes models."""
    return WORK / f"measure_roles-{quote(model, safe='')}.json"


def main() -> None:
    """Measure the named rows, or all; print the table of everything measured so far."""
    shown = argparse.ArgumentDefaultsHelpFormatter
    about = "Measure answer formats and roles on held-out expressions: about 20 seconds for a row of 500."
    parser = argparse.ArgumentParser("python -m sottovoce.training.measure_roles", None, about, formatter_class=shown)
    parser.add_argument("rows", nargs="*", help=f"rows to measure, of {', '.join(ROWS)}; all if none is named")
    parser.add_argument("-n", type=int, default=500, help="replies per row")
    parser.add_argument("--model", default="bundled", help="name of the model, as on the command line")
    parser.add_argument("--results", type=Path, help="file of the results of all calls; one per model if not set")
    arguments = parser.parse_args()
    for row in arguments.rows:
        if row not in ROWS:
            parser.error(choose("row", row, list(ROWS)))
    path = arguments.results or results_of(arguments.model)
    saved = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for row in arguments.rows or ROWS:
        saved[row] = measure(row, arguments.n, arguments.model)
        print(f"{row}: {sum(saved[row]['right'])} of {arguments.n} right", flush=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(saved), encoding="utf-8")
    print(f"\n{tables(saved)}")


if __name__ == "__main__":
    main()
