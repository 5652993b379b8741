"""`python -m sottovoce.training.measure_roles`: forms and roles, one reply at a time, on held-out expressions.

Prompts come from the product's own views and replies are read by its own readers. What was said before is
imagined: right, with a slip, or unreadable, as in training. Replies are greedy.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sottovoce.errors import choose
from sottovoce.models import Ids, Request, Sampling, Stop, load
from sottovoce.prompts.render import Prompts
from sottovoce.prompts.structured import read_confidence, read_json
from sottovoce.training import cmd, mad, reconcile, roles
from sottovoce.training.chats import Encoder
from sottovoce.training.forms import UNKNOWN
from sottovoce.training.measure import SEED
from sottovoce.training.places import Place
from sottovoce.training.sources import Source
from sottovoce.training.statistics import wilson

COMMAND = "python -m sottovoce.training.measure_roles"
RESULTS = Path(__file__).parent / "work" / "measure_roles.json"
TOPS = (99, 300, 700)
"""Largest numbers, a third of the questions each."""
LONGEST = 256

Asks = Callable[[random.Random, Source], Place]
ROWS: dict[str, tuple[str, Asks]] = {
    "number": ("a number", partial(roles.alone, form="number")),
    "yes_no": ("yes or no", partial(roles.alone, form="yes_no")),
    "label": ("a label", partial(roles.alone, form="label")),
    "option": ("a choice", partial(roles.alone, form="option")),
    "debater": ("MAD, debater", mad.debater),
    "moderator": ("MAD, moderator: do the sides agree?", mad.moderator),
    "judge": ("MAD, judge", mad.judge),
    "reconcile-first": ("ReConcile, first answer", reconcile.first),
    "reconcile": ("ReConcile, after a discussion", reconcile.discussion),
    "convinced": ("ReConcile, after an explanation", reconcile.convinced),
    "cmd": ("CMD, after a discussion", cmd.discussion),
    "secretary": ("CMD, secretary", cmd.secretary),
    "repair": ("asked again after an unreadable reply", roles.repair),
}


@dataclass(frozen=True)
class Result:
    """What a row came to, place by place."""

    readable: list[bool]
    """Or rightly without an answer."""
    right: list[bool]
    sure: list[float | None]
    """The stated confidence, where there is an answer."""


def ask(name: str, n: int) -> list[Place]:
    """The places of a row, the same ones whenever they are made."""
    source = Source(Prompts(), TOPS, part="held_out")
    rng = random.Random(f"{SEED}/{name}")
    return [ROWS[name][1](rng, source) for _ in range(n)]


def measure(places: Sequence[Place], model: str = "bundled") -> Result:
    """What the model says in these places."""
    loaded = load(model)
    encoder = Encoder(loaded.tokenizer)
    stop, greedy = Stop(LONGEST, loaded.stop_ids), Sampling(0.0)
    requests = [Request((Ids(tuple(encoder.prompt(place.turns))),), stop, sampling=greedy) for place in places]
    return read(places, [encoder.text(reply.ids) for reply in loaded.engine.run_all(requests)])


def read(places: Sequence[Place], texts: Sequence[str]) -> Result:
    """Which replies can be read, and which are right."""
    readable, right, sure = list[bool](), list[bool](), list[float | None]()
    for place, text in zip(places, texts, strict=True):
        reader = place.reader
        readable.append(not reader.complain(text) or bool(reader.complain(place.right)))
        right.append(readable[-1] and reader.answer(text) == reader.answer(place.right))
        stated = read_json(text, ("confidence_level",)).found.get("confidence_level")
        sure.append(None if (reader.answer(text) or UNKNOWN) == UNKNOWN else read_confidence(stated))
    return Result(readable, right, sure)


def table(results: dict[str, Result]) -> str:
    """The measured rows in markdown."""
    lines = [
        "| one reply, held out | readable | right | 95 % | sure: right, wrong | row |",
        "|---|---|---|---|---|---|",
    ]
    for name, (title, _) in ROWS.items():
        if name in results:
            result = results[name]
            low, high = wilson(sum(result.right), len(result.right))
            shares = (f"{sum(each) / len(each):.1%}" for each in (result.readable, result.right))
            cells = [title, *shares, f"{low:.1%} to {high:.1%}", _sure(result), f"`{name}`"]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _sure(result: Result) -> str:
    """The mean stated confidence of right answers, and of wrong ones."""
    said = [(sure, right) for sure, right in zip(result.sure, result.right, strict=True) if sure is not None]
    means = [[sure for sure, right in said if right == wanted] for wanted in (True, False)]
    return ", ".join(f"{sum(mean) / len(mean):.2f}" if mean else "-" for mean in means) if said else ""


def main() -> None:
    """Measure the rows that are named, or all; print the table of everything measured so far."""
    parser = argparse.ArgumentParser(
        prog=COMMAND,
        description="Measure forms of an answer and roles on held-out expressions: some 20 seconds for a row of 500.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("rows", nargs="*", help="such as moderator; all if none is named")
    parser.add_argument("-n", type=int, default=500, help="places a row")
    parser.add_argument("--model", default="bundled", help="a model, as the command line names it")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where results are kept between calls")
    arguments = parser.parse_args()
    for name in arguments.rows:
        if name not in ROWS:
            parser.error(choose("row", name, list(ROWS)))
    saved = json.loads(arguments.results.read_text(encoding="utf-8")) if arguments.results.exists() else {}
    for name in arguments.rows or ROWS:
        result = measure(ask(name, arguments.n), arguments.model)
        saved[name] = vars(result)
        print(f"{name}: {sum(result.right)} of {arguments.n} right", flush=True)
        arguments.results.parent.mkdir(parents=True, exist_ok=True)
        arguments.results.write_text(json.dumps(saved), encoding="utf-8")
    print(f"\n{table({name: Result(**kept) for name, kept in saved.items()})}")


if __name__ == "__main__":
    main()
