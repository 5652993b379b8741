"""Whoever holds an agent's seat, or approves what agents say: is shown it, and answers in a line, or in several."""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from sottovoce.errors import SottovoceError
from sottovoce.evaluation.views.printable import harmless, one_line
from sottovoce.nodes.state import JSON

Pause = Callable[[], AbstractContextManager[object]]
FENCE = '"""'
"""A line that begins a reply of several lines, and the one that ends it."""
REJECTED = "-"
RESUME = "`runs resume` goes on at a terminal"
Reply = str | JSON


def person(pause: Pause = nullcontext, hint: str = RESUME) -> Callable[[JSON], Reply]:
    """Who answers what a graph stopped with (nodes.people, nodes.approve), from stdin.

    Questions go to stderr, so that stdout stays the run's. Of many discussions at once one asks at a time. `pause`
    holds still what is in motion on the terminal, and `hint` tells what to do where stdin has ended.
    """
    alone = threading.Lock()

    def answer(asked: JSON) -> Reply:
        with alone, pause():
            print(_shown(asked), file=sys.stderr, flush=True)
            reply = _reply()
        if reply is None:
            raise SottovoceError(f"nobody answers for {asked['agent']}: stdin has ended; {hint}")
        return _verdict(reply) if "approve" in asked else reply

    return answer


def _verdict(reply: str) -> Reply:
    return {"approve": not reply} if reply in ("", REJECTED) else reply


def _reply() -> str | None:
    """The next line of stdin, or the lines between two fences; None where stdin has ended before."""
    line = read_line()
    if line is None or line.strip() != FENCE:
        return line
    lines = list[str]()
    while (line := read_line()) is not None and line.strip() != FENCE:
        lines.append(line)
    return "\n".join(lines) if line is not None else None


def read_line() -> str | None:
    """The next line of stdin without its end; None where there is none.

    At a terminal nobody holds stdin while it is waited for, so that a stop ends it.
    """
    while os.name == "posix" and sys.stdin.isatty() and not select.select([sys.stdin], [], [], 0.2)[0]:
        continue
    line = sys.stdin.readline()
    return line.rstrip("\r\n") if line else None


def _shown(asked: JSON) -> str:
    """All that a person must know before the answer."""
    return _approval(asked) if "approve" in asked else _seat(asked)


def _approval(asked: JSON) -> str:
    agent, what, then = (one_line(asked[name]) for name in ("agent", "approve", "then"))
    notes = [f"({one_line(note)})" for note in asked["notes"]]
    how = f"Enter approves, {REJECTED} rejects, another text takes its place: "
    return "\n".join([f"{agent} is about to do this ({what}):", harmless(asked["text"]), *notes, f"Then {then}.", how])


def _seat(asked: JSON) -> str:
    agent, act, why = (one_line(asked[name]) for name in ("agent", "act", "why"))
    who = f"The seat of {agent} is yours ({act}): {why}. What it is asked:"
    turns = [f"[{role}]\n{harmless(text)}" for role, text in asked["turns"]]
    how = f"Your reply, in one line, or in several between two lines of {FENCE}: {one_line(asked['begun'])}"
    return "\n\n".join([who, *turns, how])
