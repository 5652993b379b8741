"""The command `view`: a page of runs on this machine, which grows while they run."""

from __future__ import annotations

import secrets
import socket

from pydantic import ConfigDict, Field

from sottovoce.cli.command import GROUPS, Command
from sottovoce.cli.options import argument
from sottovoce.core.errors import UsageError
from sottovoce.core.text import say
from sottovoce.core.validation import Checked


class ViewOptions(Checked):
    """The runs to show, and where."""

    model_config = ConfigDict(title="View")

    names: list[str] = argument(
        "Runs, as for `runs show`; an experiment's folder, or a folder of runs, stands for all its runs: `view runs` "
        "lists those of --save runs/NAME. Without a run: all other saved runs, and new ones as they start.",
        "[RUN ...]",
        default=[],
    )
    port: int = Field(default=0, ge=0, le=65535, description="Port on 127.0.0.1; 0 picks a free one.")


def view(options: ViewOptions) -> None:
    """Serve the page until Ctrl-C."""
    try:
        import uvicorn  # late, as all that follows: the help needs none
    except ImportError as error:
        raise UsageError(f"view needs starlette and uvicorn; pip install 'sottovoce[view]' ({error})") from error
    say("reading runs ...", error=True)  # the imports alone may take seconds
    from sottovoce.report.live import Live
    from sottovoce.report.server import HOST, server

    live, token = Live(options.names), secrets.token_urlsafe(24)
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, options.port))
        except OSError as error:
            raise UsageError(f"port {options.port} cannot be used ({error.strerror}); give another --port") from error
        say(f"open http://{HOST}:{listening.getsockname()[1]}/?token={token} in a browser; Ctrl-C ends it")
        config = uvicorn.Config("", log_level="warning", access_log=False)
        running = uvicorn.Server(config)
        config.app = server(live, token, lambda: running.should_exit)
        running.run(sockets=[listening])


commands = Command("view", view, (ViewOptions,), GROUPS["view"])
