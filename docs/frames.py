"""Counter of our own functions on the way of a question: `python docs/frames.py [--list]`.

A question passes from the command line through LangGraph, threads and an event loop to the model, so no single
stack shows the whole way. The stack is recorded at each hand-over (see HAND_OVERS), and each of our functions on one
of these stacks counts once. Below, all our functions that ran are counted, each once: those before the first forward
pass of any kind (a pass by which an engine measures a model included), and those that ran for the first time after it.
`--list` prints them.
"""

from __future__ import annotations

import contextlib
import io
import sys
import threading
from collections.abc import Iterable, Iterator
from functools import cache
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType

ROOT = Path(__file__).resolve().parents[1]
HAND_OVERS = (
    ("model_validate", "pydantic/main.py", "settings are built from the command line"),
    ("compile", "langgraph/graph/state.py", "the graph is compiled"),
    ("astream", "langgraph/pregel/main.py", "the graph starts"),
    ("get_runtime", "langgraph/runtime.py", "the first node reads the run's settings"),
    ("ask", "sottovoce/core/worker.py", "an agent's prompt is rendered"),
    ("seed", "nodes/", "an act asks"),
    ("ainvoke", "language_models/chat_models.py", "its model is called"),
    ("encode", "chat.py", "the chat becomes tokens"),
    ("make_request", "channels/", "the protocol prepares the reply"),
    ("submit", "models/engine", "the engine gets the request"),
    ("forward", "modeling_", "the model computes"),
)
"""Functions at which the stack is recorded, in this order, each at its first call: its name, a part of its file's
path, and its meaning."""
ARGUMENTS = ["debate", "What is 14 + 3 * 5 - 7?", "--protocol", "sde", "--agents", "1", "--rounds", "1"]
ARGUMENTS += ["--max-tokens", "2", "--json"]  # one agent: two would run at once


@cache
def described(code: CodeType) -> str | None:
    """Return the file and the name of one of our functions; None for others, comprehensions and lambdas."""
    path, name = Path(code.co_filename).resolve(), code.co_qualname.replace("<locals>.", "")
    inside = path.is_relative_to(ROOT) and ".venv" not in path.parts and path != Path(__file__).resolve()
    if not inside or "<" in code.co_filename or "<" in name:
        return None
    return f"{path.relative_to(ROOT).as_posix()}: {name}"


def own(frame: FrameType | None) -> Iterator[str]:
    """Yield our functions on a stack, the innermost first."""
    while frame is not None:
        if name := described(frame.f_code):
            yield name
        frame = frame.f_back


class Walk:
    """The functions on the way, in the order of their first appearance."""

    def __init__(self) -> None:
        self.seen: dict[str, str] = {}
        self.at = 0
        self.computed = False
        self.before: dict[str, None] = {}
        self.after: dict[str, None] = {}

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """Count a call, and record the stack at the next hand-over; the signature is that of a profile function."""
        if event != "call":
            return
        if frame.f_code.co_flags & CO_OPTIMIZED and (name := described(frame.f_code)) and name not in self.before:
            (self.after if self.computed else self.before)[name] = None
        if frame.f_code.co_name == "forward" and "modeling_" in frame.f_code.co_filename:
            self.computed = True
        if self.at == len(HAND_OVERS) or frame.f_code.co_name != HAND_OVERS[self.at][0]:
            return
        _, part, meaning = HAND_OVERS[self.at]
        path = Path(frame.f_code.co_filename).resolve().as_posix()
        # A pass over a single token is a probe by which an engine measures a model's cache per token.
        ids = frame.f_locals.get("input_ids")
        if part not in path or (part == "modeling_" and (ids is None or ids.shape[1] == 1)):
            return
        for name in reversed([*own(frame)]):
            self.seen.setdefault(name, meaning)
        self.at += 1


def files(names: Iterable[str]) -> int:
    """Return the number of files of these functions."""
    return len({name.partition(":")[0] for name in names})


def main() -> None:
    """Run a debate and print the functions on its way."""
    from sottovoce.cli.main import main as cli

    walk = Walk()
    threading.setprofile(walk)  # for threads that start from now on
    sys.setprofile(walk)
    with contextlib.redirect_stdout(io.StringIO()):
        cli(ARGUMENTS)
    sys.setprofile(None)
    for number, (name, hand_over) in enumerate(walk.seen.items(), 1):
        print(f"{number:3}  {name}  ({hand_over})")
    if walk.at < len(HAND_OVERS):
        sys.exit(f"nothing called {HAND_OVERS[walk.at][0]!r}; bring HAND_OVERS up to date")
    print(f"{len(walk.seen)} frames of our own")
    if "--list" in sys.argv:
        print(*(f"before: {name}" for name in sorted(walk.before)), sep="\n")
        print(*(f"after: {name}" for name in sorted(walk.after)), sep="\n")
    counts = [f"{len(names)} functions in {files(names)} files" for names in (walk.before, walk.after)]
    print(f"{counts[0]} before the first forward pass, {counts[1]} more after it")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
