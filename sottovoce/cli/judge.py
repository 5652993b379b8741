"""The judging of a run's answers by a model, and tables on how far it agrees with the scores and with people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, ValidationError

from sottovoce.analysis.llm_judge import agreements, judge_questions, judge_settings, raters
from sottovoce.analysis.statistics import check_installed, share
from sottovoce.cli.run_screen import shown_row
from sottovoce.core.errors import SottovoceError, UsageError
from sottovoce.core.files import check_no_link, text_of
from sottovoce.core.text import one_line
from sottovoce.report.tables import share_cells, show, table
from sottovoce.runs import run_directory
from sottovoce.runs.job import SAME_COMMAND, Job, resumable
from sottovoce.runs.limits import Limits
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.read import load_run
from sottovoce.runs.run_directory import JUDGED
from sottovoce.runs.start import continue_run

if TYPE_CHECKING:
    from sottovoce.analysis.llm_judge import Verdicts

RIGHT_HEADINGS = "rater | answers | right | 95 %"
AGREEMENT_HEADINGS = "raters | answers | agree | 95 % | Cohen's kappa"


def judge_run(name: str, model: str, labels_file: Path | None, limits: Limits) -> None:
    """Judge the answers of a run that are not judged yet; print shares of right answers and agreements of raters."""
    check_installed()
    folder = run_directory.find_run(name)
    labels = {} if labels_file is None else _read_labels(labels_file)
    with resumable("all verdicts are kept"):
        questions = judge_questions(load_run(folder))
        check_no_link(folder / JUDGED)
        settings = judge_settings(model)
        head = new_manifest("single", settings, questions, origin="(answers to judge)")
        judged = continue_run(head, questions, folder / JUDGED)
        Job(limits, shown_row).run(JUDGED, judged, settings)
    verdicts = raters(load_run(folder), judged, labels)
    rights = (
        [rater, str(len(given)), *share_cells(share([*map(float, given.values())]))]
        for rater, given in verdicts.items()
    )
    show(table(RIGHT_HEADINGS, rights) + "\n")
    cells = (
        [
            f"{pair.left} and {pair.right}",
            str(pair.n),
            *share_cells(pair.same),
            "" if pair.kappa is None else f"{pair.kappa:.2f}",
        ]
        for pair in agreements(verdicts)
    )
    show(table(AGREEMENT_HEADINGS, cells))
    print(f"\nsaved in {one_line(str(folder / JUDGED))}; `runs compare` and `runs show` show it as `judged`")
    if judged.unfinished:
        raise SottovoceError(f"{len(judged.unfinished)} answers are not judged; {SAME_COMMAND} resumes")


class Label(BaseModel):
    """A person's verdict on an answer."""

    model_config = ConfigDict(strict=True)

    question: str
    right: bool
    seed: int = 0


def _read_labels(path: Path) -> Verdicts:
    try:
        lines = text_of(path).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"labels {str(path)!r} cannot be read: {error}") from error
    verdicts = {}
    for number, line in enumerate(lines, 1):
        try:
            label = Label.model_validate_json(line or "{}")
        except ValidationError as error:
            if line.strip():
                expected = 'expected {"question": ID, "right": true}'
                raise UsageError(f"label is {line[:80]!r}; {expected} ({path}, line {number})") from error
            continue
        verdicts[label.question, label.seed] = label.right
    return verdicts
