"""Shell completion of option values: choices, models by name, saved runs. Nothing here imports torch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click
from click.shell_completion import CompletionItem, get_completion_class

from sottovoce.core.errors import UsageError, choose
from sottovoce.core.files import config_folder, models_folder

VARIABLE = "_SOTTOVOCE_COMPLETE"
"""The environment variable by which a shell asks for completions."""
STARTUP = {"bash": ".bashrc", "zsh": ".zshrc", "fish": ".config/fish/config.fish"}
"""The file in the home folder that a shell reads when it starts."""


def choices(values: Sequence[str], ctx: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
    """Return the values of a closed set."""
    return _matching(values, typed)


def files(ctx: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Let the shell itself complete the name of a file or a folder."""
    return [CompletionItem(typed, type="file")]


def models(ctx: click.Context, parameter: click.Parameter, typed: str) -> list[str] | list[CompletionItem]:
    """Return the bundled model, those in the config file, and pulled ones; files if none of them matches."""
    from sottovoce.cli.config import read_config

    try:
        configured = list(read_config().models)
    except UsageError:  # running a command reports it
        configured = []
    pulled = [record.parent.name for record in models_folder().glob("*/source.json")]
    return _matching(["bundled", *configured, *sorted(pulled)], typed) or files(ctx, parameter, typed)


def runs(ctx: click.Context, parameter: click.Parameter, typed: str) -> list[str] | list[CompletionItem]:
    """Return saved runs, the newest first; files if none of them matches."""
    from sottovoce.runs.run_directory import saved_runs

    names = ["latest", *(folder.name for folder in reversed(saved_runs()))]
    return _matching(names, typed) or files(ctx, parameter, typed)


def show(ctx: click.Context) -> None:
    """Print the completion script of the current shell."""
    click.echo(_script(ctx.command), nl=False)


def install(ctx: click.Context) -> None:
    """Save the completion script of the current shell, and let the shell read it when it starts."""
    script, startup = config_folder() / f"completion.{_shell()}", Path.home() / STARTUP[_shell()]
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(_script(ctx.command), encoding="utf-8")
    line = f"source '{script}'\n"
    if not startup.exists() or line not in startup.read_text(encoding="utf-8"):
        startup.parent.mkdir(parents=True, exist_ok=True)
        with startup.open("a", encoding="utf-8") as file:
            file.write(line)
    click.echo(f"completion for {_shell()} is in {script}, which {startup} reads; it works in new terminals")


def _script(program: click.Command) -> str:
    found = get_completion_class(_shell())
    assert found is not None, "click knows the shells of STARTUP"
    return found(program, {}, "sottovoce", VARIABLE).source()


def _shell() -> str:
    name = Path(os.environ.get("SHELL", "")).name
    if name not in STARTUP:
        raise UsageError(f"{choose('shell', name, list(STARTUP))} (by the variable SHELL)")
    return name


def _matching(values: Sequence[str], typed: str) -> list[str]:
    return [value for value in dict.fromkeys(values) if value.startswith(typed)]
