"""Whoever takes an agent's seat: shown what the agent would be asked, and answers with a line."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from sottovoce.errors import SottovoceError
from sottovoce.evaluation.views.printable import harmless, one_line
from sottovoce.nodes.state import JSON

Pause = Callable[[], AbstractContextManager[object]]


def person(pause: Pause = nullcontext) -> Callable[[JSON], str]:
    """Who answers in an agent's place, from stdin; questions go to stderr, so that stdout stays the run's.

    `pause` holds still what is in motion on the terminal.
    """

    def answer(asked: JSON) -> str:
        with pause():
            print(_shown(asked), file=sys.stderr, flush=True)
            line = _line()
        if not line:
            raise SottovoceError(
                f"nobody answers for {asked['agent']}: stdin has ended; `runs resume` goes on at a terminal"
            )
        return line.rstrip("\n")

    return answer


def _line() -> str:
    """The next line of stdin. At a terminal nobody holds stdin while it is waited for, so that a stop ends it."""
    while os.name == "posix" and sys.stdin.isatty() and not select.select([sys.stdin], [], [], 0.2)[0]:
        continue
    return sys.stdin.readline()


def _shown(asked: JSON) -> str:
    agent, act, why = (one_line(asked[name]) for name in ("agent", "act", "why"))
    who = f"The seat of {agent} is yours ({act}): {why}. What it is asked:"
    turns = [f"[{role}]\n{harmless(text)}" for role, text in asked["turns"]]
    return "\n\n".join([who, *turns, f"Your reply, in one line: {one_line(asked['begun'])}"])
