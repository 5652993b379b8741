"""`python -m benchmarks.understood`: how answers of a real model are parsed, by kind and scheme.

Of all replies that should contain an answer: parsed at once, after a retry with the format, by the answer turn, or
abstaining; and the right ones in each. With and without constrained decoding, on the questions of `benchmarks.replies`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.replies import asked
from sottovoce.channels.message import Message
from sottovoce.channels.store import PayloadStore
from sottovoce.graphs.scheme import scheme
from sottovoce.nodes import mad, reconcile
from sottovoce.nodes.decide import voted
from sottovoce.nodes.question import Question
from sottovoce.nodes.state import Discussion, Vote, current_messages
from sottovoce.nodes.votes import read_vote
from sottovoce.prompts import kinds
from sottovoce.report.tables import table

WORK = Path(__file__).parent / "work"
KINDS = ("number", "option", "yes_no", "label", "text")
SETTINGS: Mapping[str, dict[str, Any]] = {  # Any: settings of the schemes
    "single": {},
    "debate": {"rounds": 2},
    "mad": {"rounds": 1},
    "reconcile": {"rounds": 1},
    "cmd": {"agents": 3, "rounds": 2},
}
HOW = ("at once", "repair", "answer turn", "abstains")
READ: Mapping[tuple[str, str], Callable[[Message, Question], Vote]] = {
    ("reconcile", "answer"): reconcile.read_vote,
    ("reconcile", "revise"): reconcile.read_vote,
    ("mad", "judge"): mad.by_judge,
}
ACTS = ("answer", "revise", "judge", "decide")
Cell = list[tuple[str, bool]]
"""For each reply: how it was parsed, and whether it is right."""


def replies(name: str, end: Discussion) -> Iterator[tuple[str, bool]]:
    """Yield each reply of a discussion that should contain an answer; those of MAD's debaters need not."""
    for message in current_messages(end):
        if message.act not in ACTS or (name == "mad" and message.act != "judge"):
            continue
        vote = voted(message, end, READ.get((name, message.act), read_vote))
        how = {"repair": "repair", "answer": "answer turn"}.get(vote.get("asked", ""), "at once")
        yield ("abstains" if vote["answer"] is None else how), kinds.right(vote["answer"], end)


async def measure(name: str, kind: str, guide: str, n: int, model: str) -> Cell:
    """Return the replies of n discussions."""
    record = scheme(name)
    given = {"model": [model], "temperature": [0.0], "max_tokens": 96, "guide": guide}
    settings = record.settings.model_validate({**given, **SETTINGS[name]})
    with TemporaryDirectory() as folder:
        graph = record.create(settings, store=PayloadStore(folder)).compile()
        keys = ["board", "round", "epochs", "kind", "target", "question", "choices"]
        questions = list(asked(kind, n))
        ends = await graph.abatch(questions, {"max_concurrency": 32, "recursion_limit": 100}, output_keys=keys)
    return [reply for end in ends for reply in replies(name, end)]


def line(key: str, cell: Sequence[Sequence[Any]]) -> list[str]:
    """Return a row: the share of each way of parsing, and in brackets how many of these are right."""
    counted, right = Counter(how for how, _ in cell), Counter(how for how, is_right in cell if is_right)
    told = {how: f"{counted[how] / max(len(cell), 1):.0%}" for how in HOW}
    shares = [told[how] + (f" ({right[how]} right)" if counted[how] else "") for how in HOW]
    return [*key.split("/"), str(len(cell)), *shares]


def main() -> None:
    """Measure the missing cells, and print the table."""
    parser = argparse.ArgumentParser("python -m benchmarks.understood", description=__doc__)
    parser.add_argument("-n", type=int, default=20, help="questions per cell")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--scheme", nargs="*", default=list(SETTINGS))
    parser.add_argument(
        "--results",
        type=Path,
        default=WORK / "understood.json",
        help="a file of earlier results, which are not measured again",
    )
    given = parser.parse_args()
    saved: dict[str, Cell] = json.loads(given.results.read_text()) if given.results.exists() else {}
    for key in (f"{name}/{kind}/{guide}" for name in given.scheme for kind in KINDS for guide in ("off", "auto")):
        if key in saved:
            continue
        begun, (name, kind, guide) = time.monotonic(), key.split("/")
        saved[key] = asyncio.run(measure(name, kind, guide, given.n, given.model))
        print(f"{key}: {time.monotonic() - begun:.0f} s", flush=True)
        given.results.parent.mkdir(parents=True, exist_ok=True)
        given.results.write_text(json.dumps(saved), encoding="utf-8")
    print(table(f"scheme | kind | guide | replies | {' | '.join(HOW)}", [line(*each) for each in saved.items()]))


if __name__ == "__main__":
    main()
