"""Human input: people at the terminal reply for an agent, or approve what agents do, in one line or several."""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from sottovoce.core.errors import SottovoceError
from sottovoce.core.text import harmless, one_line
from sottovoce.nodes.state import JSON

Pause = Callable[[], AbstractContextManager[object]]
FENCE = '"""'
"""The line before and after a reply of several lines."""
REJECTED = "-"
RESUME = "a run that was saved continues at a terminal by `runs resume`"
Reply = str | JSON


def person(pause: Pause = nullcontext, hint: str = RESUME) -> Callable[[JSON], Reply]:
    """Return a function that answers a graph's interrupts (nodes.people, nodes.approve) from stdin.

    Questions go to stderr, so that stdout is only for the run. Of parallel discussions one asks at a time. `pause`
    stops redrawing on the terminal, and `hint` says what to do if stdin has ended.
    """
    alone = threading.Lock()

    def answer(asked: JSON) -> Reply:
        with alone, pause():
            print(_shown(asked), file=sys.stderr, flush=True)
            reply = _reply()
        if reply is None:
            raise SottovoceError(f"no reply for {asked['agent']}: stdin has ended; {hint}")
        return _verdict(reply) if "approve" in asked else reply

    return answer


def _verdict(reply: str) -> Reply:
    return {"approve": not reply} if reply in ("", REJECTED) else reply


def _reply() -> str | None:
    """Return the next line of stdin, or the lines between two fences; None if stdin has ended before."""
    line = read_line()
    if line is None or line.strip() != FENCE:
        return line
    lines = list[str]()
    while (line := read_line()) is not None and line.strip() != FENCE:
        lines.append(line)
    return "\n".join(lines) if line is not None else None


def read_line() -> str | None:
    """Return the next line of stdin without its end; None if there is none.

    At a terminal it polls stdin, so that an interrupt ends the wait.
    """
    while os.name == "posix" and sys.stdin.isatty() and not select.select([sys.stdin], [], [], 0.2)[0]:
        continue
    line = sys.stdin.readline()
    return line.rstrip("\r\n") if line else None


def _shown(asked: JSON) -> str:
    """Return all that a person must know before answering."""
    return _approval(asked) if "approve" in asked else _seat(asked)


def _approval(asked: JSON) -> str:
    agent, what, then = (one_line(asked[name]) for name in ("agent", "approve", "then"))
    notes = [f"({one_line(note)})" for note in asked["notes"]]
    how = f"Enter approves, {REJECTED} rejects, any other text replaces it: "
    return "\n".join([f"{agent} is about to do this ({what}):", harmless(asked["text"]), *notes, f"Then {then}.", how])


def _seat(asked: JSON) -> str:
    agent, act, why = (one_line(asked[name]) for name in ("agent", "act", "why"))
    who = f"You reply for {agent} ({act}): {why}. The prompt:"
    turns = [f"[{role}]\n{harmless(text)}" for role, text in asked["turns"]]
    how = f"Your reply, in one line, or in several between two lines of {FENCE}: {one_line(asked['begun'])}"
    return "\n\n".join([who, *turns, how])
