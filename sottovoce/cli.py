"""The command line: its commands stand by area in `commands/`; here they come together, and errors become lines.

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
from sottovoce.checked import shown
from sottovoce.commands import (
    configuration,
    evaluating,
    experiments,
    looking,
    models,
    monitors,
    payloads,
    questions,
    runs,
    schemes,
)
from sottovoce.commands.group import Commands
from sottovoce.errors import SottovoceError
from sottovoce.evaluation.views.printable import one_line
from sottovoce.evaluation.views.readable import ERRORS
from sottovoce.evaluation.views.verbose import tell_all

FAILED = 1
MISUSED = 2
STOPPED = 130  # the shells' code for Ctrl-C
DEEPEST = 100
"""Limit on the chain of causes that is searched."""
UNREACHABLE = (errno.ENAMETOOLONG, errno.ELOOP, errno.EACCES, errno.EPERM, errno.EROFS)
"""What a path is guilty of wherever it is met, though it be only asked for."""
CHATTY = ("torchao", "torch.utils._pytree")
"""Loggers that warn as transformers (5.23) imports torchao, whatever model is run."""
AREAS = {
    "Schemes": schemes,
    "Runs": runs,
    "What lies under messages": payloads,
    "What runs came to": evaluating,
    "Experiments": experiments,
    "Models": models,
    "Questions and what agents read": questions,
    "Monitors": monitors,
    "Looking at schemes": looking,
    "Defaults of your own": configuration,
}
"""The commands by their headings in the help, in its order."""

app = typer.Typer(
    name="sottovoce",
    cls=Commands,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
for heading, area in AREAS.items():
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
    verbose: bool = typer.Option(False, "--verbose", help="Tell on stderr what is loaded, read and kept."),
) -> None:
    """Language-model agents that discuss in words and in what lies under the words.

    Begin with `sottovoce debate`, and then `sottovoce debate --protocol cipher`; for a real model `sottovoce models
    pull smollm2`, and `--model smollm2`. `sottovoce COMMAND --help` tells a command's options, those that most people
    need first.
    """
    if verbose:
        tell_all()


@cache
def _program() -> Any:  # Any: typer's own types are private
    """The commands, made once a process: it takes a fifth of a second."""
    return typer.main.get_command(app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0, 1 the run failed, 2 wrong usage, 130 stopped."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # it was closed by whoever started the process
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal that lacks a character gets its escape, not a traceback
            stream.reconfigure(errors=ERRORS)
    for library in CHATTY:
        logging.getLogger(library).setLevel(logging.ERROR)
    typed = list(sys.argv[1:] if arguments is None else arguments)
    for word in typed:
        if not _is_text(word):
            return _complain(f"an argument holds half of a character, which no file or terminal takes: {word}", MISUSED)
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
    """Return True where a Ctrl-C caused an error: a library that is being imported may raise another one for it."""
    seen = 0
    while error is not None and not isinstance(error, KeyboardInterrupt) and seen < DEEPEST:
        error, seen = error.__cause__ or error.__context__, seen + 1
    return isinstance(error, KeyboardInterrupt)


def _is_text(word: str) -> bool:
    """Whether a system could have passed it, in whatever encoding; a program that calls `main` may pass anything."""
    try:
        word.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _foreseen(error: Exception) -> str | None:
    """The line for an error that is not ours and no bug either: a full disk, a hosted model that failed."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full: {error}"
    if isinstance(error, OSError) and error.errno in UNREACHABLE and error.filename:
        return f"{shown(str(error.filename))} cannot be reached: {error.strerror}"
    from sottovoce.agents.hosted import failure  # late: it imports langchain

    return failure(error)


def _told(error: typer.TyperException) -> str:
    """Typer's own message, and where the right use is described."""
    context = getattr(error, "ctx", None)
    see = f"; see {context.command_path} --help" if context else ""
    return error.format_message().rstrip(".") + see


def _complain(message: str, code: int) -> int:
    """One line on stderr, whatever the message quotes."""
    print(f"sottovoce: {one_line(message)}", file=sys.stderr)
    return code
