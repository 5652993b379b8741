"""The command `data games`: a world's games, drawn from a seed, as a question file for its scheme.

Nothing here imports torch or langgraph: games are rules.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import typer
from pydantic import ConfigDict, Field

from sottovoce.core.bounds import Few
from sottovoce.core.errors import UsageError
from sottovoce.core.outputs import FORCE, OutputFile
from sottovoce.core.text import counted, one_line
from sottovoce.core.validation import Checked
from sottovoce.datasets.samples import samples
from sottovoce.nodes.question import Question
from sottovoce.settings import Settings


class GamesOptions(Checked):
    """The number of games, their split and their file; their seed and size are the scheme's own settings."""

    model_config = ConfigDict(title="Games")

    n: Few = Field(default=100, ge=1, description="Number of games.")
    split: Literal["train", "validation", "test"] | None = Field(
        default=None,
        description="Games that monitors are trained on, are chosen by, or never see; any if omitted.",
    )
    to: Path | None = Field(default=None, description="The .jsonl file to write.")
    force: bool = Field(default=False, description=FORCE)


def store_games(command: str, settings: Settings, options: GamesOptions) -> None:
    """Write games to a file, whole or not at all, and print how to play them.

    Raises:
        UsageError: no file is named, it cannot be written, or there are too few such games.
    """
    if options.to is None or options.to.suffix.lower() not in (".jsonl", ".ndjson"):
        raise UsageError(f"games are written to a .jsonl file: data games {command} --n 100 --to games.jsonl")
    file = OutputFile(options.to, "--to", force=options.force)
    name = settings.sample if options.split is None else f"{settings.sample}/{options.split}"
    rows = [_row(each, name, settings.seed) for each in samples(name, options.n, settings, settings.seed)]
    file.write("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    where = one_line(str(options.to))
    typer.echo(f"{counted(len(rows), 'game')} of {name}/{settings.seed} written to {where}")
    typer.echo(f"play them with `{command} --questions {where}` and the settings of this call")


def _row(question: Question, sample: str, seed: int) -> dict[str, object]:
    """Return a question as a row; its sample and seed are in columns that no agent reads."""
    asked = {name: value for name, value in question.items() if name != "decoys"}
    return {**asked, "sample": sample, "sample_seed": seed}
