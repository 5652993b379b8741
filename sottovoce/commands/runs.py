"""The runs that are kept: `runs list`, `show`, `resume`, `replay`, `export`, `prune`."""

from __future__ import annotations

from pathlib import Path

import typer

from sottovoce.commands.group import RUN, area, group
from sottovoce.evaluation.runs.limits import Limits
from sottovoce.evaluation.runs.shelf import KEPT
from sottovoce.evaluation.views import runs as kept_runs
from sottovoce.evaluation.views.branches import ReplayOptions, show_replay
from sottovoce.evaluation.views.output import Output
from sottovoce.options import command

commands = area()
runs = group(commands, "runs", "List, show, resume, replay, export and remove the runs that are kept.")
FILE = typer.Argument(metavar="FILE", help="is written")
FORMAT = typer.Option(
    None,
    "--format",
    help="jsonl (records), csv (results), markdown (transcripts), card, trec or qrels; else by the file's name",
)


@runs.command("list")
def list_runs() -> None:
    """List the runs that are kept, the newest last."""
    kept_runs.list_runs()


@runs.command("show")
def show_kept_run(
    name: str = RUN,
    question: str | None = typer.Option(None, help="of many discussions the one on the question with this id"),
    seed: int | None = typer.Option(None, help="and under this seed"),
    show_prompts: bool = typer.Option(False, "--show-prompts", help="print what each agent was asked, too"),
    as_json: bool = typer.Option(False, "--json", help="one JSON object on stdout, and nothing else"),
) -> None:
    """Show a run again: its transcript, or what its discussions came to. No model is loaded."""
    output = Output.model_validate({"show_prompts": show_prompts, "json": as_json})
    kept_runs.show_kept_run(name, question, seed, output)


runs.command("resume", help="Go on with a run that was stopped; discussions that failed are tried again.")(
    command(kept_runs.resume_run, kept_runs.Named, Limits, Output)
)
runs.command("replay", help="Hold a watched discussion again, with an intervention and without; tell how they differ.")(
    command(show_replay, ReplayOptions)
)


@runs.command("export")
def export_run(name: str = RUN, file: Path = FILE, form: str | None = FORMAT) -> None:
    """Write a run to a file: records as JSON Lines, results as CSV, transcripts as Markdown, or its card as JSON."""
    kept_runs.export_run(name, form, file)


@runs.command("prune")
def prune_runs(keep: int = typer.Option(KEPT, min=0, help="how many of the newest stay")) -> None:
    """Remove all but the newest runs; those in folders of your own stay."""
    kept_runs.prune_runs(keep)
