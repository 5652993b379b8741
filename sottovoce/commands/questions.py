"""What is asked, and what agents may read: `datasets`, `games`, `index`, `convince`."""

from __future__ import annotations

from functools import partial

import typer

from sottovoce.commands.group import REPEAT, area, group
from sottovoce.evaluation.convincing import SampleOptions, SpeakingOptions, show_convince
from sottovoce.evaluation.runs.samples import SAMPLES
from sottovoce.evaluation.views.games import GamesOptions, store_games
from sottovoce.evaluation.views.indexing import show_index
from sottovoce.evaluation.views.published import show_datasets
from sottovoce.graphs import shipped
from sottovoce.options import command
from sottovoce.retrievers.makers import IndexOptions

commands = area()


@commands.command()
def datasets(
    given: str | None = typer.Argument(
        None, metavar="[NAME|NAME:FILE]", help="one of them, or a file of one, as --questions takes it"
    ),
) -> None:
    """List published data sets; or show an example of a file of one, its count, and its digest."""
    show_datasets(given)


commands.command("index", help="Make an index of passages that agents can look up; resumable.")(
    command(show_index, IndexOptions)
)
commands.command("convince", help="Find questions on which an explanation convinces a model: ReConcile's samples.")(
    command(show_convince, SampleOptions, SpeakingOptions)
)

games = group(commands, "games", "Draw games of a world, and store them in a file that its scheme plays.")
for each in shipped():
    if f"{each.settings.sample}/train" in SAMPLES:  # a world, with splits of its games
        games.command(each.command, help=each.summary, epilog=REPEAT)(
            command(partial(store_games, each.command), each.settings, GamesOptions)
        )
