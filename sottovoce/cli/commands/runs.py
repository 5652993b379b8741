"""Commands for saved runs: `runs list`, `show`, `resume`, `replay`, `export`, `prune`."""

from __future__ import annotations

from pathlib import Path

import typer

from sottovoce.cli.commands.group import RUN, area, group
from sottovoce.cli.scheme_options import command
from sottovoce.cli.screens import saved_runs as kept_runs
from sottovoce.cli.screens.replay_branches import ReplayOptions, show_replay
from sottovoce.core.outputs import FORCE
from sottovoce.report.output import Output
from sottovoce.runs.allowed import Trust
from sottovoce.runs.limits import Limits
from sottovoce.runs.run_directory import KEPT

commands = area()
runs = group(commands, "runs", "List, show, resume, replay, export and remove saved runs.")
FILE = typer.Argument(metavar="FILE", help="The file to write.")
OVER = typer.Option(False, "--force", help=FORCE)
FORMAT = typer.Option(
    None,
    "--format",
    help="jsonl (records), csv (results), markdown (transcripts), card, trec, qrels; default: by name.",
)


@runs.command("list")
def list_runs() -> None:
    """List saved runs, the newest last."""
    kept_runs.list_runs()


@runs.command("show")
def show_kept_run(
    name: str = RUN,
    question: str | None = typer.Option(None, help="Show only the discussion of the question with this id."),
    seed: int | None = typer.Option(None, help="Show only the discussion with this seed."),
    show_prompts: bool = typer.Option(False, "--show-prompts", help="Also print each agent's prompts."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object on stdout, and nothing else."),
) -> None:
    """Show a saved run: its transcript, or the results of its discussions. No model is loaded."""
    output = Output.model_validate({"show_prompts": show_prompts, "json": as_json})
    kept_runs.show_kept_run(name, question, seed, output)


runs.command("resume", help="Resume a run that was stopped; discussions that failed are tried again.")(
    command(kept_runs.resume_run, kept_runs.Named, Limits, Output, Trust)
)
runs.command("replay", help="Run a watched discussion again, with and without an intervention, and compare both.")(
    command(show_replay, ReplayOptions, Trust)
)


@runs.command("export")
def export_run(name: str = RUN, file: Path = FILE, form: str | None = FORMAT, force: bool = OVER) -> None:
    """Write a run to a file: records as JSON Lines, results as CSV, transcripts as Markdown, or its card as JSON."""
    kept_runs.export_run(name, form, file, force=force)


@runs.command("prune")
def prune_runs(keep: int = typer.Option(KEPT, min=0, help="Number of newest runs to keep.")) -> None:
    """Remove all but the newest runs; runs in folders that you chose stay."""
    kept_runs.prune_runs(keep)
