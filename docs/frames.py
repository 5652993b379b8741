"""Counter of our own stack frames from `cli.main` to the first forward pass of a debate: `python docs/frames.py`.

A question passes from the command line through LangGraph, threads and an event loop to the model, so no single
stack shows the whole way. The stack is recorded at each hand-over (see HAND_OVERS), and each of our functions on one
of these stacks counts once.
"""

from __future__ import annotations

import contextlib
import io
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[1]
HAND_OVERS = (
    ("model_validate", "pydantic/main.py", "settings are built from the command line"),
    ("compile", "langgraph/graph/state.py", "the graph is compiled"),
    ("astream", "langgraph/pregel/main.py", "the graph starts"),
    ("get_runtime", "langgraph/runtime.py", "the opening reads the run's settings"),
    ("ask", "sottovoce/core/worker.py", "an agent's prompt is rendered"),
    ("seed", "nodes/", "an act asks"),
    ("ainvoke", "language_models/chat_models.py", "its model is called"),
    ("encode", "chat.py", "the chat becomes tokens"),
    ("speak", "channels/", "the protocol prepares the reply"),
    ("submit", "models/engine", "the engine gets the request"),
    ("forward", "modeling_", "the model computes"),
)
"""Functions at which the stack is recorded, in this order, each at its first call: its name, a part of its file's
path, and its meaning."""
ARGUMENTS = ["debate", "What is 14 + 3 * 5 - 7?", "--protocol", "sde", "--agents", "1", "--rounds", "1"]
ARGUMENTS += ["--max-tokens", "2", "--json"]  # one agent: two would run at once


def own(frame: FrameType | None) -> Iterator[str]:
    """Yield our functions on a stack, the innermost first, without comprehensions and lambdas."""
    while frame is not None:
        path, name = Path(frame.f_code.co_filename).resolve(), frame.f_code.co_qualname.replace("<locals>.", "")
        inside = path.is_relative_to(ROOT) and ".venv" not in path.parts and path != Path(__file__).resolve()
        if inside and not frame.f_code.co_name.startswith("<"):
            yield f"{path.relative_to(ROOT).as_posix()}: {name}"
        frame = frame.f_back


class Walk:
    """The functions on the way, in the order of their first appearance."""

    def __init__(self) -> None:
        self.seen: dict[str, str] = {}
        self.at = 0

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """Record the stack at the next hand-over; the signature is that of a profile function."""
        if event != "call" or self.at == len(HAND_OVERS) or frame.f_code.co_name != HAND_OVERS[self.at][0]:
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


def main() -> None:
    """Run a debate and print the functions on its way."""
    from sottovoce.cli.main import main as cli

    walk = Walk()
    threading.setprofile(walk)
    sys.setprofile(walk)
    with contextlib.redirect_stdout(io.StringIO()):
        cli(ARGUMENTS)
    sys.setprofile(None)
    for number, (name, hand_over) in enumerate(walk.seen.items(), 1):
        print(f"{number:3}  {name}  ({hand_over})")
    if walk.at < len(HAND_OVERS):
        sys.exit(f"the way was lost: nothing called {HAND_OVERS[walk.at][0]!r}")
    print(f"{len(walk.seen)} frames of our own")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
