"""The command `config`: named models and defaults that are in force."""

from __future__ import annotations

import typer

from sottovoce.cli.commands.group import area
from sottovoce.cli.config import words
from sottovoce.cli.config_file import candidates, config_path, read_config
from sottovoce.core.text import one_line

commands = area()


@commands.command()
def config() -> None:
    """Show the named models and defaults in force here, and the file that sets them."""
    found = read_config()
    typer.echo(f"file: {config_path() or 'none of ' + ', '.join(map(str, candidates()))}")
    told = {f"model {name}": given for name, given in found.models.items()}
    told |= {"defaults": dict(found.everywhere)} if found.everywhere else {}
    told |= {f"defaults of {name}": given for name, given in found.of_scheme.items()}
    for name, given in told.items():
        typer.echo(one_line(f"{name}: {words(given)}"))
