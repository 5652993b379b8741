"""A LangGraph server (`langgraph dev`) for tests."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[1]
SANDBOX = '[settings.codegen]\nsandbox = "isolated"\n'
"""A setting of the server that clients cannot choose."""
START = 120.0
"""Seconds in which a server must start."""


@contextmanager
def serving(folder: Path, config: Path, models: Mapping[str, str]) -> Iterator[str]:
    """Start `langgraph dev` on a free port, offline, and yield its address; stop it at the end of the block.

    It runs in `folder`, where it writes its files and its log. Its clients may use the names of `models`.
    """
    port, log = free_port(), folder / "server.log"
    offered = "".join(f"{json.dumps(name)} = {json.dumps(where)}\n" for name, where in models.items())
    (folder / "server.toml").write_text(f"{SANDBOX}[model]\n{offered}", encoding="utf-8")
    offline = {"LANGSMITH_TRACING": "false", "LANGGRAPH_CLI_NO_ANALYTICS": "1", "HF_HUB_OFFLINE": "1"}
    env = {**os.environ, **offline, "PYTHONPATH": str(ROOT), "SOTTOVOCE_STORE": str(folder / "store")}
    env["SOTTOVOCE_SERVER"] = str(folder / "server.toml")
    command = [sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload", "--port", str(port)]
    command += ["--host", "127.0.0.1", "--config", str(config)]
    with log.open("w") as out:
        process = subprocess.Popen(command, cwd=folder, env=env, stdout=out, stderr=subprocess.STDOUT)
        try:
            end, up = time.monotonic() + START, False
            while not up and time.monotonic() < end and process.poll() is None:
                with suppress(httpx.TransportError):
                    up = httpx.get(f"http://127.0.0.1:{port}/ok", timeout=5, trust_env=False).is_success
                time.sleep(0.2)
            assert up, f"the server did not start; its log ends so: {log.read_text()[-500:]}"
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(30)


def free_port() -> int:
    """Return a port that nothing listens on now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
