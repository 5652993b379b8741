"""The command line: collects the commands of `commands/`, and turns errors into lines on stderr.

Nothing here imports torch or langgraph before a command runs: `--help` answers at once.
"""

from __future__ import annotations

import errno
import logging
import os
import sys
from collections.abc import Sequence
from functools import cache
from io import TextIOWrapper
from typing import Any

import typer

from sottovoce import __version__
from sottovoce.cli.commands import configuration, data, experiment, graph, models, monitor, payloads, runs, schemes
from sottovoce.cli.commands.group import Commands
from sottovoce.cli.screens.verbose import tell_all
from sottovoce.core.errors import SottovoceError
from sottovoce.core.text import one_line
from sottovoce.core.validation import shown
from sottovoce.report.console import ERRORS

FAILED = 1
MISUSED = 2
STOPPED = 130  # the shells' code for Ctrl-C
DEEPEST = 100
"""Limit on the chain of causes that is searched."""
UNREACHABLE = (errno.ENAMETOOLONG, errno.ELOOP, errno.EACCES, errno.EPERM, errno.EROFS)
"""Errors that are the path's own fault, also when a program only asks whether the path exists."""
CHATTY = ("torchao", "torch.utils._pytree")
"""Loggers that warn when transformers (5.23) imports torchao, whichever model is run."""
AREAS = {
    "Schemes": [schemes],
    "Other commands": [runs, experiment, models, data, monitor, graph, payloads, configuration],
}
"""The modules of commands by their headings in the help, in its order."""

app = typer.Typer(
    name="sottovoce",
    cls=Commands,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
for heading, areas in AREAS.items():
    for area in areas:
        for each in (*area.commands.registered_commands, *area.commands.registered_groups):
            each.rich_help_panel = heading
        app.add_typer(area.commands)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"sottovoce {__version__}")
        raise typer.Exit


@app.callback()
def everywhere(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version and exit."
    ),
    verbose: bool = typer.Option(False, "--verbose", help="Report on stderr what is loaded, read and saved."),
) -> None:
    """Language-model agents that discuss in words and in what lies under the words.

    Start with `sottovoce debate`, then try `sottovoce debate --protocol cipher`; for a real model run `sottovoce
    models pull smollm2` and add `--model smollm2`. `sottovoce COMMAND --help` lists a command's options, the most
    common ones first.
    """
    if verbose:
        tell_all()


@cache
def _program() -> Any:  # Any: typer's own types are private
    """Return the commands; cached, since building them takes a fifth of a second."""
    return typer.main.get_command(app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 0 success, 1 the run failed, 2 wrong usage, 130 stopped."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the parent process closed it
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a character that the terminal lacks is escaped
            stream.reconfigure(errors=ERRORS)
    for library in CHATTY:
        logging.getLogger(library).setLevel(logging.ERROR)
    typed = list(sys.argv[1:] if arguments is None else arguments)
    for word in typed:
        if not _is_text(word):
            return _complain(f"an argument has half of a character, which no file or terminal accepts: {word}", MISUSED)
    try:
        result = _program()(typed or ["--help"], prog_name="sottovoce", standalone_mode=False)
    except SottovoceError as error:
        return _complain(str(error), error.exit_code)
    except typer.TyperException as error:
        return _complain(_told(error), MISUSED)
    except KeyboardInterrupt:
        result = STOPPED
    except Exception as error:
        if _was_stopped(error):
            return _complain("stopped", STOPPED)
        if line := _foreseen(error):
            return _complain(line, FAILED)
        raise
    if result == STOPPED:  # typer returns it for a Ctrl-C
        return _complain("stopped", STOPPED)
    return result if isinstance(result, int) else 0


def _was_stopped(error: BaseException | None) -> bool:
    """Return True if a Ctrl-C caused the error: a library whose import is interrupted may raise another exception."""
    seen = 0
    while error is not None and not isinstance(error, KeyboardInterrupt) and seen < DEEPEST:
        error, seen = error.__cause__ or error.__context__, seen + 1
    return isinstance(error, KeyboardInterrupt)


def _is_text(word: str) -> bool:
    """Return whether a shell could have passed the word, in any encoding; a caller of `main` may pass anything."""
    try:
        word.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _foreseen(error: Exception) -> str | None:
    """Return one line for an expected error of the system or a hosted model, such as a full disk; None for a bug."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full: {error}"
    if isinstance(error, OSError) and error.errno in UNREACHABLE and error.filename:
        return f"{shown(str(error.filename))} cannot be reached: {error.strerror}"
    from sottovoce.agents.hosted import failure  # late: it imports langchain

    return failure(error)


def _told(error: typer.TyperException) -> str:
    """Return typer's own message, with the command that shows the correct usage."""
    context = getattr(error, "ctx", None)
    see = f"; see {context.command_path} --help" if context else ""
    return error.format_message().rstrip(".") + see


def _complain(message: str, code: int) -> int:
    """Print the message on stderr, on one line even if it quotes line breaks, and return the exit code."""
    print(f"sottovoce: {one_line(message)}", file=sys.stderr)
    return code
