"""The command line: finds the command, runs it, and turns errors into lines on stderr.

The file of a group is imported when one of its commands is called: `--help` answers at once.
"""

from __future__ import annotations

import errno
import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper

import click
from click.shell_completion import shell_complete

from sottovoce import __version__
from sottovoce.cli.command import GROUPS, Commands, Row, log_to_stderr, scheme_names, scheme_rows
from sottovoce.cli.options import as_options
from sottovoce.core.errors import SottovoceError, nearest
from sottovoce.core.errors import program as started_as
from sottovoce.core.text import ERRORS, one_line, say, without_secrets
from sottovoce.core.validation import shown
from sottovoce.nodes.option_groups import BY_NAME

FAILED = 1
MISUSED = 2
STOPPED = 130  # the shells' code for Ctrl-C
DEEPEST = 100
"""Limit on the chain of causes that is searched."""
UNREACHABLE = (errno.ENAMETOOLONG, errno.ELOOP, errno.EACCES, errno.EPERM, errno.EROFS)
"""Errors that are the path's own fault, also when a program only asks whether the path exists."""
CHATTY = ("torchao", "torch.utils._pytree")
"""Loggers that warn when transformers (5.23) imports torchao, whichever model is run."""
COMPLETE = "_SOTTOVOCE_COMPLETE"
"""The environment variable by which a shell asks for its completion script or for completions (click's own)."""
ABOUT = """Language-model agents that discuss in words and in what lies under them.

Every scheme runs as it stands: start with `debate`, then add `--protocol cipher`. For a real model add \
`--model smollm2`, which is fetched once (93 MB). Help: `COMMAND --help`."""

STEP = "Run a discussion step by step: edit, go back, fork."


class Program(Commands):
    """The program, with one command for each scheme and groups of the other commands."""

    def rows(self) -> dict[str, list[Row]]:
        """Return the schemes with `step`, and the groups."""
        return {"Schemes": [*scheme_rows(), ("step", STEP)], "Other commands": [*GROUPS.items()]}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the help."""
        return [*scheme_names(), "step", *GROUPS]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Return a scheme's command, or a group."""
        if name in GROUPS:
            group: click.Command = import_module(f"sottovoce.cli.{name}").commands
            return group
        from sottovoce.cli.schemes import commands, step

        return step if name == "step" else commands.get_command(ctx, name)


program = Program(
    "sottovoce",
    ABOUT,
    context_settings={"max_content_width": 100, "help_option_names": ["-h", "--help"]},
)
click.version_option(__version__, message="sottovoce %(version)s")(program)
click.option("--verbose", is_flag=True, help="Log on stderr what is loaded, read and saved.")(program)


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
    if instruction := os.environ.get(COMPLETE):
        return shell_complete(program, {}, "sottovoce", COMPLETE, instruction)
    try:
        with program.make_context(started_as(), typed or ["--help"], obj=(*typed,)) as ctx:
            if ctx.params["verbose"]:
                log_to_stderr()
            result = program.invoke(ctx)
    except click.exceptions.Exit as end:
        return end.exit_code
    except SottovoceError as error:
        return _report(str(error), error.exit_code)
    except click.ClickException as error:
        context, message = getattr(error, "ctx", None), error.format_message()
        if context and isinstance(error, click.NoSuchOption):
            options = [name for option in context.command.get_params(context) for name in option.opts]
            message = nearest("option", error.option_name, (name for name in options if name.startswith("--")))
            setting = error.option_name.strip("-").replace("-", "_")
            if setting in BY_NAME and "--option" in options:
                message = f"{error.option_name} is given by `{setting}=VALUE`"
        see = f" (see `{context.command_path} --help`)" if context else ""
        return _report(message.rstrip(".") + see, MISUSED)
    except KeyboardInterrupt:
        return _report("stopped", STOPPED)
    except BrokenPipeError:  # who read the output has seen enough, such as `head`
        sys.stdout = open(os.devnull, "w", encoding="utf-8")
        return FAILED
    except Exception as error:
        if _was_stopped(error):
            return _report("stopped", STOPPED)
        if line := _foreseen(error):
            return _report(line, FAILED)
        raise
    return result if isinstance(result, int) else 0


def _was_stopped(error: BaseException | None) -> bool:
    """Return True if a Ctrl-C caused the error: a library may raise another exception if its import is interrupted."""
    seen = 0
    while error is not None and not isinstance(error, KeyboardInterrupt) and seen < DEEPEST:
        error, seen = error.__cause__ or error.__context__, seen + 1
    return isinstance(error, KeyboardInterrupt)


def _foreseen(error: Exception) -> str | None:
    """Return one line for an expected error of the system or a hosted model, such as a full disk; None for a bug."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full: {error}"
    if isinstance(error, OSError) and error.errno in UNREACHABLE and error.filename:
        return f"{shown(str(error.filename))} cannot be reached: {error.strerror}"
    from sottovoce.agents.hosted import failure  # late: it imports langchain

    return failure(error)


def _report(message: str, code: int) -> int:
    say(f"sottovoce: {one_line(without_secrets(as_options(message)))}", error=True)
    return code
