"""What a file of named models and defaults has in force: `config`."""

from __future__ import annotations

import typer

from sottovoce.commands.group import area
from sottovoce.config import words
from sottovoce.config_file import candidates, config_path, read_config
from sottovoce.evaluation.views.printable import one_line

commands = area()


@commands.command()
def config() -> None:
    """Tell which named models and defaults are in force here, and which file they are from."""
    found = read_config()
    typer.echo(f"file: {config_path() or 'none of ' + ', '.join(map(str, candidates()))}")
    told = {f"model {name}": given for name, given in found.models.items()}
    told |= {"defaults": dict(found.everywhere)} if found.everywhere else {}
    told |= {f"defaults of {name}": given for name, given in found.of_scheme.items()}
    for name, given in told.items():
        typer.echo(one_line(f"{name}: {words(given)}"))
