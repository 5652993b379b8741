"""Commands that analyze runs: `compare`, `measures`, `report`, `audit`, `verify`, `judge`."""

from __future__ import annotations

from pathlib import Path

import typer

from sottovoce.cli.commands.group import RUN, RUNS, area
from sottovoce.cli.scheme_options import command
from sottovoce.cli.screens import saved_runs as kept_runs
from sottovoce.cli.screens.audit import show_audit
from sottovoce.cli.screens.judge import JudgeOptions, show_judging
from sottovoce.cli.screens.matched import compare_matched
from sottovoce.cli.screens.measures import By, show_measures
from sottovoce.cli.screens.report_page import show_report
from sottovoce.cli.screens.verify import show_verification
from sottovoce.core.outputs import FORCE
from sottovoce.runs.allowed import TRUST_HELP, Trust
from sottovoce.runs.budget import Currency
from sottovoce.runs.limits import Limits

commands = area()
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
OVER = typer.Option(False, "--force", help=FORCE)


@commands.command()
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


@commands.command()
def measures(names: list[str] = RUNS, by: By | None = BY, qrels: Path | None = QRELS) -> None:
    """Show how discussion changed answers: accuracy, agreement, flips, kinds of error, and quality of retrieval."""
    show_measures(names, by, qrels)


@commands.command()
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


@commands.command()
def audit(names: list[str] = RUNS) -> None:
    """Score runs again under other policies, such as those of the papers' own programs, and show what changes."""
    show_audit(names)


@commands.command()
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


commands.command(
    "judge", help="Let a model judge whether a run's answers are right, and show how far raters agree; resumable."
)(command(show_judging, JudgeOptions, Limits))
