"""The output of the commands of `models`: the progress of a pull, stored models, removals.

Nothing here imports torch before a command runs.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import typer

from sottovoce.report.tables import show

if TYPE_CHECKING:
    from sottovoce.models.sources import Kept

NAME, STATE = 26, 20  # columns


def show_pull(name: str) -> None:
    """Pull a model of the catalogue, and print how to use it."""
    from rich.console import Console

    console, began = Console(highlight=False), time.monotonic()
    with console.status("looking") as status:
        from sottovoce.models.sources import CATALOGUE, is_pulled, pull

        if name in CATALOGUE and is_pulled(name):
            typer.echo(f"{name} is already there, in {pull(name)}")
            return

        def tell(line: str) -> None:
            status.update(f"{line} ...")
            if not console.is_terminal:
                console.print(f"{line} ...", soft_wrap=True)

        folder = pull(name, tell)
    package = CATALOGUE[name]
    use = f"--model {name}" if package.speaks else f"sottovoce.models.pulled({name!r})"
    typer.echo(f"{name}: {package.what}, licence {package.licence}")
    typer.echo(f"in {folder} after {time.monotonic() - began:.0f} s; use it as {use}")


def show_kept() -> None:
    """List the catalogue with the models that were pulled, then the models that were converted from GGUF files."""
    from sottovoce.models.sources import CATALOGUE, is_pulled, kept, root

    there = {each.name: each for each in kept()}
    lines = []
    for name, package in CATALOGUE.items():
        state = f"pulled, {_size(there[name])}" if is_pulled(name) else "not pulled"
        lines.append(f"{name:{NAME}}{state:{STATE}}{package.what}; {package}, licence {package.licence}")
    for name in there.keys() - CATALOGUE.keys():
        source = there[name].source
        state = f"converted, {_size(there[name])}"
        lines.append(f"{name:{NAME}}{state:{STATE}}{source.origin}; licence {source.licence}")
    lines += ["", f"in {root()}; use a model as --model NAME, a converted file by its own path"]
    show("\n".join(lines))


def show_removal(name: str) -> None:
    """Remove a stored model, and print its name and origin."""
    from sottovoce.models.sources import remove

    found = remove(name)
    typer.echo(f"{name} ({found.source.origin}) is removed")


def _size(kept: Kept) -> str:
    from sottovoce.core.sizes import amount

    return amount(kept.nbytes)
