"""Replies that careful writers give in the worlds, and what each of them means."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sottovoce.environments.codegen import assertions, program, ranks, reflections, scores
from sottovoce.environments.govsim.talk import read_limit, read_summary, read_tons, read_utterance
from sottovoce.environments.whodunit.actions import WORDINGS, Malformed, Role, read
from sottovoce.environments.whodunit.games import attributes, drawn
from tests.environments.players import replied
from tests.tables import each_row

FOLDER = Path(__file__).parent / "replies"
WORLDS = ("whodunit", "govsim", "codegen")
GAME = drawn("replies", attributes(12), 10)
THERE = ("John", "Kate", "Jack", "Emma", "Luke")
UNREAD = "unread"


def rows(world: str) -> list[dict[str, Any]]:
    lines = (FOLDER / f"{world}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def action(role: Role) -> Callable[[str], Any]:
    def meant(reply: str) -> Any:
        found = read(replied(reply), role, GAME, WORDINGS["positive"], 3)
        return UNREAD if isinstance(found, Malformed) else {name: value for name, value in asdict(found).items()}

    return meant


def utterance(reply: str) -> Any:
    found = read_utterance(replied(reply), THERE)
    return {"text": found.text, "done": found.done, "following": found.following}


def reviews(reply: str) -> Any:
    spans = reflections(replied(reply), 4)
    return UNREAD if spans is None else [reply[slice(*span)] for span in spans]


def best(reply: str) -> Any:
    found = ranks(replied(reply), 4)
    return UNREAD if found is None else [number + 1 for number in found]


def code(reply: str) -> Any:
    found = program(replied(reply), "")
    return {"code": found.text, "scores": scores(replied(reply), 3)} if found else UNREAD


def tons(reply: str) -> Any:
    found = read_tons(replied(reply))
    return UNREAD if found is None else found


def limit(reply: str) -> Any:
    found = read_limit(replied(reply))
    return int(found) if found.isdigit() else None if found else UNREAD


READ: dict[str, Callable[[str], Any]] = {
    "accuser": action("accuser"),
    "intel": action("intel"),
    "peer": action("peer"),
    "talk": utterance,
    "wish": tons,
    "reflect": str.strip,  # notes are kept as they are written
    "summarise": lambda reply: read_summary(reply),
    "limit": limit,
    "coder": code,
    "tester": lambda reply: assertions(replied(reply)),
    "reflector": reviews,
    "ranker": best,
}


def as_meant(act: str, reply: str, meant: Any) -> str:
    """Return "meant", "unread" or "otherwise"."""
    found = READ[act](reply)
    if isinstance(meant, dict) and isinstance(found, dict):
        found = {name: list(found[name]) if isinstance(found[name], tuple) else found[name] for name in meant}
    return "meant" if found == meant else "unread" if found in (UNREAD, [], None) else "otherwise"


@each_row("world", WORLDS)
def test_replies_of_careful_writers_are_read_as_meant(world: str) -> None:
    given = rows(world)
    read_as = [as_meant(row["act"], row["reply"], row["meant"]) for row in given]
    wrong = [(row["act"], row["reply"]) for row, how in zip(given, read_as, strict=True) if how == "otherwise"]
    assert not wrong
    assert read_as.count("meant") >= 0.85 * len(given)  # the others are asked for again


def test_each_act_has_at_least_fifteen_replies() -> None:
    acts = [row["act"] for world in WORLDS for row in rows(world)]
    assert {act: acts.count(act) >= 15 for act in READ} == dict.fromkeys(READ, True)
