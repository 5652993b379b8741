"""Human input: people at the terminal reply for an agent, or approve what agents do, in one line or several."""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from sottovoce.core.any_types import JSON
from sottovoce.core.errors import SottovoceError
from sottovoce.core.text import harmless, one_line, say

Pause = Callable[[], AbstractContextManager[object]]
FENCE = '"""'
"""The line before and after a reply of several lines."""
REJECTED = "-"
Reply = str | JSON


def person(pause: Pause = nullcontext, *, hint: str) -> Callable[[JSON], Reply]:
    """Return a function that answers a graph's interrupts (nodes.people, nodes.approve) from stdin.

    Questions go to stderr, so that stdout is only for the run. Of parallel discussions one asks at a time. `pause`
    stops redrawing on the terminal, and `hint` says what to do if stdin has ended.
    """
    lock = threading.Lock()

    def answer(request: JSON) -> Reply:
        with lock, pause():
            prompt = _approval_prompt if "approve" in request else _reply_prompt
            say(prompt(request), error=True)
            reply = _reply()
        if reply is None:
            raise SottovoceError(f"no reply for {request['agent']}: stdin has ended; {hint}")
        return {"approve": not reply} if "approve" in request and reply in ("", REJECTED) else reply

    return answer


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


def _approval_prompt(request: JSON) -> str:
    agent, what, then = (one_line(request[name]) for name in ("agent", "approve", "then"))
    notes = [f"({one_line(note)})" for note in request["notes"]]
    how = f"Enter approves, {REJECTED} rejects, any other text replaces it: "
    begin = f"{agent} is about to do this ({what}):"
    return "\n".join([begin, harmless(request["text"]), *notes, f"Then {then}.", how])


def _reply_prompt(request: JSON) -> str:
    agent, act, why = (one_line(request[name]) for name in ("agent", "act", "why"))
    who = f"You reply for {agent} ({act}): {why}. The prompt:"
    turns = [f"[{role}]\n{harmless(text)}" for role, text in request["turns"]]
    how = f"Your reply, in one line, or in several between two lines of {FENCE}: {one_line(request['begun'])}"
    return "\n\n".join([who, *turns, how])
