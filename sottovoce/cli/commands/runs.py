"""Commands for saved runs: list, show, resume, replay, export, compare, analyze, verify and remove them."""

from __future__ import annotations

from pathlib import Path

import typer

from sottovoce.cli import completion
from sottovoce.cli.commands.group import RUN, RUNS, area, group
from sottovoce.cli.scheme_options import command
from sottovoce.cli.screens import saved_runs as kept_runs
from sottovoce.cli.screens.audit import show_audit
from sottovoce.cli.screens.judge import JudgeOptions, show_judging
from sottovoce.cli.screens.matched import compare_matched
from sottovoce.cli.screens.measures import By, show_measures
from sottovoce.cli.screens.replay_branches import ReplayOptions, show_replay
from sottovoce.cli.screens.report_page import show_report
from sottovoce.cli.screens.verify import show_verification
from sottovoce.core.outputs import FORCE
from sottovoce.report.output import Output
from sottovoce.runs.allowed import TRUST_HELP, Trust
from sottovoce.runs.budget import Currency
from sottovoce.runs.limits import Limits

commands = area()
runs = group(commands, "runs", "List, show, resume, compare, verify, report and remove saved runs.")
FILE = typer.Argument(metavar="FILE", help="The file to write.")
OVER = typer.Option(False, "--force", help=FORCE)
SOME = typer.Argument(None, metavar="[RUN ...]", help="Runs, as for `runs show`.", autocompletion=completion.runs)
FORMAT = typer.Option(
    None,
    "--format",
    help="jsonl (records), csv (results), markdown (transcripts), card, trec, qrels; default: by name.",
)
BY = typer.Option(
    None, help="Measures of each round, agent, model, or limit (never agreed within N rounds) only; default: all."
)
MATCHED = typer.Option(
    None,
    help="Compare one run with a single agent and with self-consistency at the same cost; starts both as new runs.",
)
OF_RUN = typer.Option(None, help="The file that the run's questions came from.")
TABLE = typer.Option(None, help="Also check a CSV file of results that `runs export` wrote.")
CARD = typer.Option(
    None, help="Also check a card that `runs export RUN card.json` wrote, or the card in a report page."
)
QRELS = typer.Option(
    None, metavar="FILE", help="TREC relevance judgments (qid 0 docid rel) to use instead of the questions' own."
)
TRUST = typer.Option(False, "--trust-paths", help=TRUST_HELP)
SANDBOX = typer.Option(None, help=Trust.model_fields["sandbox"].description)
UNSAFE = typer.Option(False, "--unsafe", help=Trust.model_fields["unsafe"].description)
HTML = typer.Option(Path("report.html"), "--html", metavar="FILE", help="The page to write.")


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


@runs.command()
def compare(
    names: list[str] = RUNS,
    against: str | None = typer.Option(None, help="Compare each other run with this one, instead of all pairs."),
    matched: Currency | None = MATCHED,
    qrels: Path | None = QRELS,
    trust_paths: bool = TRUST,
) -> None:
    """Compare runs on the questions they share: accuracy with intervals, costs, tests, and a verdict in words."""
    if matched is None:
        kept_runs.compare_runs(names, against, qrels)
    else:
        compare_matched(names, matched, Trust(trust_paths=trust_paths))


@runs.command()
def measures(names: list[str] = RUNS, by: By | None = BY, qrels: Path | None = QRELS) -> None:
    """Show how discussion changed answers: accuracy, agreement, flips, kinds of error, and quality of retrieval."""
    show_measures(names, by, qrels)


@runs.command()
def report(
    names: list[str] = RUNS,
    html: Path = HTML,
    attention: int | None = typer.Option(
        None, metavar="LAYER", help="Draw the attention of this layer, 0-based, -1 for the last; loads the models."
    ),
    force: bool = OVER,
    trust_paths: bool = TRUST,
) -> None:
    """Write one HTML page about runs: tables, plots, and every message with its payload. It opens in any browser."""
    show_report(names, html, attention, Trust(trust_paths=trust_paths), force=force)


@runs.command()
def audit(names: list[str] = RUNS) -> None:
    """Score runs again under other policies, such as those of the papers' own programs, and show what changes."""
    show_audit(names)


@runs.command()
def verify(
    name: str = RUN,
    anew: int = typer.Option(3, "-k", min=0, help="Number of discussions to run again with their models."),
    seed: int = typer.Option(0, help="Seed that selects these discussions."),
    no_model: bool = typer.Option(False, "--no-model", help="Run no discussion again, and load no model."),
    questions: Path | None = OF_RUN,
    table: Path | None = TABLE,
    card: Path | None = CARD,
    sandbox: str | None = SANDBOX,
    unsafe: bool = UNSAFE,
    trust_paths: bool = TRUST,
) -> int:
    """Check a saved run for tampering: recompute its results from its files, and run some discussions again."""
    trust = Trust(sandbox=sandbox, unsafe=unsafe, trust_paths=trust_paths)
    return show_verification(name, 0 if no_model else anew, seed, questions, table, card, trust)


runs.command(
    "judge", help="Let a model judge whether a run's answers are right, and show how far raters agree; resumable."
)(command(show_judging, JudgeOptions, Limits))


@runs.command("remove")
def remove_runs(
    names: list[str] | None = SOME,
    keep: int | None = typer.Option(None, min=0, help="Remove all but this many newest runs."),
) -> None:
    """Remove runs by name, or all but the newest ones; runs in folders that you chose stay."""
    kept_runs.remove_runs(names or [], keep)
