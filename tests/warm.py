"""Processes that start warm: each is a fork of one that has imported the libraries, which take seconds.

What a test does to such a process and sees of it is as with any other, but that no `atexit` handler runs.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from subprocess import CompletedProcess

from tests.needs import ignore_installed

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    [
        "transformers.models.qwen2.modeling_qwen2",
        "langgraph.checkpoint.sqlite",
        "sottovoce.cli.run_screen",
        "sottovoce.models",
        "sottovoce.graphs.debate",
        "tests.warm",
    ]
)
Env = Mapping[str, str]

ignore_installed()  # before a test adds folders of its own


def start(
    code: str, *arguments: object, streams: Mapping[int, Path | str], env: Env = os.environ, cwd: Path | None = None
) -> ForkServerProcess:
    """Start a process that runs Python code; `streams` has the file, pipe or terminal of a descriptor."""
    files = {**dict.fromkeys(range(3), os.devnull), **streams}
    told = (code, list(map(str, arguments)), files, {**env}, cwd or Path.cwd())
    process = PROCESSES.Process(target=_run, args=told)
    process.start()
    return process


def run(code: str, *arguments: object, env: Env = os.environ, cwd: Path | None = None) -> CompletedProcess[str]:
    """Run Python code to its end."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        process = start(code, *arguments, streams={1: out, 2: err}, env=env, cwd=cwd)
        process.join()
        assert process.exitcode is not None, "it ended"
        return CompletedProcess(code, process.exitcode, out.read_text(), err.read_text())


def _run(code: str, arguments: list[str], streams: dict[int, str], env: dict[str, str], cwd: Path) -> None:
    for number, path in streams.items():
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT if number else os.O_RDONLY), number)
    # The streams that Python made were of other files.
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.path[:0] = filter(None, env.get("PYTHONPATH", "").split(os.pathsep))
    sys.argv = ["-c", *arguments]
    exec(code, {"__name__": "__main__"})  # noqa: S102  # of the test
