"""Odd values, drawn by seed, and the law that all are held to: only errors of ours, in one line, and in time."""

from __future__ import annotations

import json
import random
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from sottovoce.core.any_types import JSONValue
from sottovoce.core.errors import SottovoceError

LONGEST = 60
"""Seconds of a case, on a machine that others use too."""
QUICK = {"arguments": 12, "states": 20, "payloads": 120, "replies": 20}
QUICK |= {"logs": 5, "contexts": 60, "requests": 4}
"""Cases in `make test`."""
ALL = {"arguments": 2000, "states": 500, "payloads": 3000, "replies": 500}
ALL |= {"logs": 1000, "contexts": 2000, "requests": 200}
"""In `make test-all`."""
PARTS = {"logs": 50, "contexts": 500, "replies": 250, "requests": 50}
"""Cases of a test, where all together may take longer than a test may."""
TEXTS = [
    *("", " ", "-1", "0", "1", "2", "3", "9" * 30, "9" * 5000, "1e999", "-inf", "nan", "0x10", "1_000", "٣", "true"),
    *("on", "off", "null", "{}", "[]", '{"a": 1}', "[[[[", "a=b", "=", "agent_1.x=1", "..", ".", "/", "~", "/dev/null"),
    *("nl", "cipher", "sde", "hidden", "agent_1", "agent_2", "\x00", "\x1b[31m", "a\nb", "\r", "\u202e", "\ud800"),
    *("\ue0000\ue001", "漢" * 50, "👩\u200d🔬", "%s%n", "{0.__class__}", "{{ 7 }}", "{% for %}", "$(id)", "'", '"'),
    *("--", "-", "-k", "--help=1", "auto", "cuda:99", "4GB", "-4GB", "4 parsecs", "latest", "x" * 3000),
]
PIECES = [
    *("Answer:", "answer", "A", "(B)", "42", "-3.5", "1/0", "\\boxed{", "}", "{", '"answer"', '{"answer": ', "]", "["),
    *("unknown", "yes", "no", "confidence", "0.9", "Thought 1:", "Action 1:", "Finish[", "Search[", "Lookup[", "```"),
    *("```python\n", "def f(", "import os", "\n", "\n\n", "\t", "NaN", "Infinity", "1e999", "9" * 5000, "٣", "\x00"),
    *("\ud800", "\ue0000\ue001", "<message>", "</message>", "{{ x }}", "[" * 500, "{" * 500, "(" * 500, "a " * 500),
    *("sqrt(", "^" * 50, "9^9^9^9", "\\frac{1}{0}", "0.1%", "$", "€", "agree", "evidence", "1, 2, 3", "limit: ", "ton"),
]


def drawn(kind: str) -> pytest.MarkDecorator:
    """Parametrise a test by seeds of its cases: few always, all in parts where slow tests run."""
    size = PARTS.get(kind, ALL[kind])
    parts = [range(first, min(first + size, ALL[kind])) for first in range(0, ALL[kind], size)]
    slow = [pytest.param(part, marks=pytest.mark.slow, id=f"{part.start}-{part.stop - 1}") for part in parts]
    return pytest.mark.parametrize("seeds", [pytest.param(range(QUICK[kind]), id="quick"), *slow])


def held(kind: str, seeds: range, case: Callable[[random.Random], object], *allowed: type[Exception]) -> None:
    """Run a case for each seed; report the seeds of those that raise anything but an error of ours in one line."""
    wrong = []
    for seed in seeds:
        try:
            with in_time():
                case(random.Random(f"{kind} {seed}"))
        except SottovoceError as error:
            if len(str(error).splitlines()) > 1:
                wrong.append(f"{kind} {seed}: several lines: {str(error)!r}")
        except Exception as error:
            if isinstance(error, allowed):
                continue
            wrong.append(f"{kind} {seed}: {''.join(traceback.format_exception(error, limit=-3))}")
    assert not wrong, f"{len(wrong)} of {len(seeds)} cases; the first:\n" + "\n".join(wrong[:3])


@contextmanager
def in_time() -> Iterator[None]:
    """Raise a TimeoutError where a case hangs."""

    def over(number: int, frame: object) -> None:
        raise TimeoutError(f"it took more than {LONGEST} seconds")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, LONGEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def kept(given: object) -> bool:
    """Whether LangGraph's savers can keep it at all: they break on whole numbers of more than 64 bits."""
    try:
        JsonPlusSerializer().dumps_typed(given)
    except TypeError:
        return False
    return True


def text(rng: random.Random) -> str:
    """A text that few programs expect."""
    if rng.random() < 0.8:
        return rng.choice(TEXTS)
    return "".join(chr(rng.choice([rng.randrange(32, 127), rng.randrange(0xD000)])) for _ in range(rng.randrange(40)))


def value(rng: random.Random, depth: int = 0) -> JSONValue:
    """A value of any type."""
    numbers = [0, -1, 1, 2, 3, 10**400, 2**63, -(2**64), 0.5, float("nan"), float("inf"), 1e308]
    plain = [None, True, False, b"\xff", *numbers]
    if depth > 2 or rng.random() < 0.7:
        return rng.choice([*plain, text(rng), text(rng), text(rng)])
    if rng.random() < 0.5:
        return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {text(rng): value(rng, depth + 1) for _ in range(rng.randrange(4))}


def reply(rng: random.Random) -> str:
    """What a model might say that was never trained to be read."""
    return rng.choice(["", " "]).join(rng.choice(PIECES) for _ in range(rng.randrange(12)))


def mutated(rng: random.Random, data: bytes) -> bytes:
    """Bytes of a file that something happened to."""
    found = bytearray(data)
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(max(len(found), 1))
        way = rng.randrange(5)
        if way == 0 and found:
            found[at % len(found)] ^= 1 << rng.randrange(8)
        elif way == 1:
            del found[at:]
        elif way == 2:
            found[at:at] = rng.randbytes(rng.randrange(1, 20))
        elif way == 3:
            found[at : at + 8] = rng.randrange(2**64).to_bytes(8, "little")
        else:
            end = min(at + rng.randrange(64), len(found))
            found[at:end] = found[: end - at]
    return bytes(found)


def edited(rng: random.Random, plain: JSONValue) -> JSONValue:
    """JSON with one of its values replaced, taken away or put in, at any depth."""
    copy = json.loads(json.dumps(plain))
    at = copy
    while isinstance(at, dict | list) and at:
        key = rng.choice([*at]) if isinstance(at, dict) else rng.randrange(len(at))
        inner = at[key]
        if not (isinstance(inner, dict | list) and inner and rng.random() < 0.7):
            if rng.random() < 0.2:
                del at[key]
            else:
                at[key] = value(rng)
            break
        at = inner
    return copy
