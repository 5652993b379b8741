"""Ways in which a log may be damaged: values of another type at every field, and lines cut, doubled or gone."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from sottovoce.core.any_types import JSONValue
from tests.fuzz.cases import mutated

Path = tuple[str | int, ...]
WRONG: list[JSONValue] = [
    *(
        None,
        "",
        "x",
        "\x00",
        "\ud800",
        "agent_99",
        "1",
        True,
        False,
        0,
        1,
        -1,
        3,
        0.5,
        -0.5,
        10**9,
        10**30,
        -(2**63),
        1e308,
    ),
    *(float("nan"), float("inf"), [], {}, [None], [[]], ["x"], [1, 2, 3], {"a": 1}, {"": None}, {"x": {"y": []}}),
    json.loads("[" * 90 + "]" * 90),
]
LINES = ("drop", "double", "cut", "bytes", "swap", "empty", "no object", "deep", "unknown", "half a character")


def damaged(rng: random.Random, log: bytes) -> bytes:
    """Return the log with one thing wrong: mostly a field, sometimes a line."""
    if rng.random() < 0.15:
        return by_line(rng, log)
    lines = [json.loads(line) for line in log.splitlines()]
    number = chosen_line(rng, lines)
    path = rng.choice([*paths(lines[number])])
    lines[number] = replaced(rng, lines[number], path)
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def chosen_line(rng: random.Random, lines: list[Any]) -> int:
    """Return a line's number, each kind of line and of event as often as the others."""
    kinds: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        for name in {line["line"], *(event["event"] for event in line.get("events", []))}:
            kinds.setdefault(name, []).append(number)
    return rng.choice(kinds[rng.choice(sorted(kinds))])


def paths(value: JSONValue, before: Path = ()) -> Iterator[Path]:
    """Yield the path of every field, at any depth; of a list the first and the last entry."""
    if before:
        yield before
    if isinstance(value, dict):
        for key, each in value.items():
            yield from paths(each, (*before, key))
    elif isinstance(value, list):
        for i in sorted({0, len(value) - 1} if value else ()):
            yield from paths(value[i], (*before, i))


def replaced(rng: random.Random, line: JSONValue, path: Path) -> JSONValue:
    """Return a line whose field at a path has another value, is gone, or has a stranger beside it."""
    at = line
    for step in path[:-1]:
        at = at[step]
    way = rng.random()
    if way < 0.1:
        del at[path[-1]]
    elif way < 0.15 and isinstance(at, dict):
        at["stranger"] = at.pop(path[-1])
    elif way < 0.2:
        at[path[-1]] = [at[path[-1]]]
    else:
        at[path[-1]] = rng.choice(WRONG)
    return line


def by_line(rng: random.Random, log: bytes) -> bytes:
    """Return the log with whole lines or bytes of one wrong."""
    lines, way = log.splitlines(keepends=True), rng.choice(LINES)
    at, to = rng.randrange(len(lines)), rng.randrange(len(lines))
    if way == "drop":
        del lines[at]
    elif way == "double":
        lines.insert(to, lines[at])
    elif way == "cut":
        lines[at] = lines[at][: rng.randrange(len(lines[at]))]
    elif way == "swap":
        lines[at], lines[to] = lines[to], lines[at]
    elif way == "bytes":
        lines[at] = mutated(rng, lines[at])
    else:
        odd = {
            "empty": b"\n",
            "no object": b'["line"]\n',
            "deep": b'{"line":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
            "unknown": b'{"line":"stranger"}\n',
            "half a character": b'{"line":"stopped","why":"\\ud800","nbytes":0}\n',
        }
        lines[at] = odd[way]
    return b"".join(lines)
