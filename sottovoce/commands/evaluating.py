"""What runs came to: `compare`, `measures`, `report`, `audit`, `verify`, `judge`."""

from __future__ import annotations

from pathlib import Path

import typer

from sottovoce.commands.group import RUN, RUNS, area
from sottovoce.evaluation.runs.budget import Currency
from sottovoce.evaluation.runs.limits import Limits
from sottovoce.evaluation.runs.trust import TRUST_HELP, Trust
from sottovoce.evaluation.views import runs as kept_runs
from sottovoce.evaluation.views.audit import show_audit
from sottovoce.evaluation.views.discussing import By, show_measures
from sottovoce.evaluation.views.judging import JudgeOptions, show_judging
from sottovoce.evaluation.views.matched import compare_matched
from sottovoce.evaluation.views.reporting import show_report
from sottovoce.evaluation.views.verifying import show_verification
from sottovoce.options import command
from sottovoce.outputs import FORCE

commands = area()
BY = typer.Option(None, help="of rounds, agents or models alone, or limit: never agreed within so many; else all")
MATCHED = typer.Option(
    None, help="of one run: ask one agent alone, and self-consistency at the same cost, as runs beside it"
)
OF_RUN = typer.Option(None, help="the file that the questions were read from")
TABLE = typer.Option(None, help="compare results that `runs export` wrote as CSV")
CARD = typer.Option(None, help="compare a card that `runs export RUN card.json` wrote, or the one in a report's page")
QRELS = typer.Option(
    None, metavar="FILE", help="TREC's judgments of passages (qid 0 docid rel), in the place of the questions' own"
)
TRUST = typer.Option(False, "--trust-paths", help=TRUST_HELP)
SANDBOX = typer.Option(None, help=Trust.model_fields["sandbox"].description)
UNSAFE = typer.Option(False, "--unsafe", help=Trust.model_fields["unsafe"].description)
HTML = typer.Option(Path("report.html"), "--html", metavar="FILE", help="is written")
OVER = typer.Option(False, "--force", help=FORCE)


@commands.command()
def compare(
    names: list[str] = RUNS,
    against: str | None = typer.Option(None, help="compare the others with this run alone, instead of all pairs"),
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
    """Tell what discussion did to answers: accuracy, agreement, flips, errors by kind, and how retrieval found them."""
    show_measures(names, by, qrels)


@commands.command()
def report(
    names: list[str] = RUNS,
    html: Path = HTML,
    attention: int | None = typer.Option(
        None, metavar="LAYER", help="draw what it attends to, 0-based or -1 for the last; loads the models"
    ),
    force: bool = OVER,
    trust_paths: bool = TRUST,
) -> None:
    """Write a page about runs that opens anywhere: tables, plots, and every message with what lay under it."""
    show_report(names, html, attention, Trust(trust_paths=trust_paths), force=force)


@commands.command()
def audit(names: list[str] = RUNS) -> None:
    """Score runs again under other policies, those of the papers' own programs among them; tell what changes."""
    show_audit(names)


@commands.command()
def verify(
    name: str = RUN,
    anew: int = typer.Option(3, "-k", min=0, help="how many discussions are held anew by their models"),
    seed: int = typer.Option(0, help="by which these are drawn"),
    no_model: bool = typer.Option(False, "--no-model", help="hold none anew, and load no model"),
    questions: Path | None = OF_RUN,
    table: Path | None = TABLE,
    card: Path | None = CARD,
    sandbox: str | None = SANDBOX,
    unsafe: bool = UNSAFE,
    trust_paths: bool = TRUST,
) -> int:
    """Tell whether a kept run is what it says: recompute all that its folder holds, and hold some of it anew."""
    trust = Trust(sandbox=sandbox, unsafe=unsafe, trust_paths=trust_paths)
    return show_verification(name, 0 if no_model else anew, seed, questions, table, card, trust)


commands.command(
    "judge", help="Let a model say of a run's answers whether they are right; tell who agrees; resumable."
)(command(show_judging, JudgeOptions, Limits))
