"""Commands for questions and for what agents read: `datasets`, `games`, `index`, `convince`."""

from __future__ import annotations

from functools import partial

import typer

from sottovoce.cli.commands.group import REPEAT, area, group
from sottovoce.cli.scheme_options import command
from sottovoce.cli.screens.datasets import show_datasets
from sottovoce.cli.screens.games import GamesOptions, store_games
from sottovoce.cli.screens.index import show_index
from sottovoce.datasets.samples import SAMPLES
from sottovoce.experiments.convincing import SampleOptions, SpeakingOptions, show_convince
from sottovoce.graphs import shipped
from sottovoce.retrievers.building import IndexOptions

commands = area()


@commands.command()
def datasets(
    given: str | None = typer.Argument(
        None, metavar="[NAME|NAME:FILE]", help="A data set, or a data set with a file of it, as for --questions."
    ),
) -> None:
    """List published data sets; or show an example from a data set's file, with its number of questions and digest."""
    show_datasets(given)


commands.command("index", help="Build an index of passages that agents can search; resumable.")(
    command(show_index, IndexOptions)
)
commands.command(
    "convince", help="Find ReConcile's convincing samples: questions on which an explanation convinces a model."
)(command(show_convince, SampleOptions, SpeakingOptions))

games = group(commands, "games", "Generate games of a world, and store them in a file that its scheme plays.")
for each in shipped():
    if f"{each.settings.sample}/train" in SAMPLES:  # a world, with splits of its games
        games.command(each.command, help=each.summary, epilog=REPEAT)(
            command(partial(store_games, each.command), each.settings, GamesOptions)
        )
