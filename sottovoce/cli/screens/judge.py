"""The command `runs judge`: a model judges a run's answers, and its agreement with the scores is measured.

Nothing here imports torch or langgraph before a run is judged: the command line reads the options.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from pydantic import ConfigDict, Field

from sottovoce.core.errors import SottovoceError, StoppedError, UsageError
from sottovoce.core.outputs import check_no_link
from sottovoce.core.regular_files import text_of
from sottovoce.core.text import one_line
from sottovoce.core.validation import Checked
from sottovoce.report.tables import share_cells, show, table
from sottovoce.runs import run_directory
from sottovoce.runs.judge_directory import JUDGED
from sottovoce.runs.limits import Limits

if TYPE_CHECKING:
    from sottovoce.analysis.llm_judge import Verdicts
    from sottovoce.runs.run import Run

HEADINGS = "raters | answers | agree | 95 % | Cohen's kappa"


class JudgeOptions(Checked):
    """The run, and its judge."""

    model_config = ConfigDict(title="Judge")

    name: str = Field(
        default="latest", description="A finished run, as for `runs show`.", json_schema_extra={"positional": "run"}
    )
    model: str = Field(default="smollm2", description="The judge, as --model of schemes.")
    labels: Path | None = Field(
        default=None,
        description='Verdicts of people, as JSON Lines: {"question": ID, "right": true}, and "seed" if it is not 0.',
    )


def show_judging(options: JudgeOptions, limits: Limits) -> None:
    """Judge the answers of a run that are not judged yet; print shares of right answers and agreements of raters.

    Raises:
        UsageError: nothing can be judged, or the labels cannot be read.
        RecordError: there is no such run, or another judge has started on it.
    """
    from sottovoce.analysis.llm_judge import agreements, raters  # late: langgraph
    from sottovoce.analysis.statistics import check_installed, share
    from sottovoce.runs.read import load_run

    check_installed()
    folder = run_directory.folder_of(options.name)
    labels = {} if options.labels is None else _labels(options.labels)
    try:
        judged = _judged(load_run(folder), options.model, folder / JUDGED, limits)
    except KeyboardInterrupt as stop:
        raise StoppedError("stopped; all verdicts are kept, and the same command resumes") from stop
    said = raters(load_run(folder), judged, labels)
    rights = ([name, str(len(each)), *share_cells(share([*map(float, each.values())]))] for name, each in said.items())
    show(table("rater | answers | right | 95 %", rights) + "\n")
    cells = (
        [f"{each.left} and {each.right}", str(each.n), *share_cells(each.same), _kappa(each.kappa)]
        for each in agreements(said)
    )
    show(table(HEADINGS, cells))
    typer.echo(f"\nkept in {one_line(str(folder / JUDGED))}; `runs compare` and `runs show` show it as `judged`")
    if judged.unfinished:
        raise SottovoceError(f"{len(judged.unfinished)} answers are not judged; the same command resumes")


def _judged(run: Run, model: str, folder: Path, limits: Limits) -> Run:
    from sottovoce.analysis.llm_judge import asked_of, judge_settings
    from sottovoce.cli.screens.experiment import shown_row
    from sottovoce.runs.manifest import head_of
    from sottovoce.runs.runner import hold_all
    from sottovoce.runs.start import continued

    check_no_link(folder)
    settings, questions = judge_settings(model), asked_of(run)
    head = head_of("single", settings, questions, origin="(answers to judge)")
    judged = continued(head, questions, folder)
    with shown_row(JUDGED, judged) as observe:
        hold_all(judged, settings, judged.store(), observe=observe, limits=limits)
    return judged


def _kappa(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _labels(path: Path) -> Verdicts:
    """Read the verdicts of people.

    Raises:
        UsageError: names the line that is not a label.
    """
    try:
        lines = text_of(path).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"labels {str(path)!r} cannot be read: {error}") from error
    return dict(_label(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip())


def _label(line: str, where: str) -> tuple[tuple[str, int], bool]:
    try:
        told: Any = json.loads(line)  # Any: parsed JSON
    except (ValueError, RecursionError):
        told = None
    if isinstance(told, dict) and isinstance(told.get("right"), bool) and isinstance(told.get("question"), str):
        if isinstance(seed := told.get("seed", 0), int):
            return (told["question"], seed), told["right"]
    raise UsageError(f'label is {line[:80]!r}; expected {{"question": ID, "right": true}} ({where})')
