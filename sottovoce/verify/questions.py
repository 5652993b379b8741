"""Checks of a run's questions against their origin: samples are generated again, a file is read again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from sottovoce.core.errors import SottovoceError
from sottovoce.datasets.question_files import read_file
from sottovoce.datasets.samples import known, origin, samples
from sottovoce.nodes.question import Question, question_id
from sottovoce.runs.run import Run
from sottovoce.runs.start import settings_of
from sottovoce.verify.findings import Finding, Verification, differences

TAKEN = re.compile(r"^(?:all|(?P<n>[\d,]+) of) (?P<total>[\d,]+) rows? of (?P<file>[^;]*)$")
"""The phrase of a question file (`QuestionFile.taken`)."""
CHOSEN = re.compile(r" with \S+ |[=<>]| shuffled by seed | behind the first ")
"""Signs that a run took other rows than the first ones of a file."""
MADE = re.compile(r"^(?:([\d,]+) )?(?:held-out )?samples? (\S+)/(\d+) ")
"""The phrase of samples (`samples.origin`)."""


def check_questions(run: Run, file: Path | None, verified: Verification) -> None:
    """Compare the questions with the samples that their origin names, or with the rows of their file."""
    asked = run.questions()
    taken = TAKEN.match(run.manifest.origin or "")
    n = _number(taken["n"] or taken["total"]) if taken else len(asked)
    if n != len(asked):
        verified.findings.append(Finding("the number of questions", len(asked), f"{n}, as their origin says"))
    if file is not None:
        rows = {question_id(each): each for each in read_file(file, {}).questions}
        expected = [rows[name] for each in asked if (name := question_id(each)) in rows]
        if taken and not CHOSEN.search(taken["file"]):
            expected = list(rows.values())[: n if taken["n"] else None]
        verified.findings += _compare(asked, expected)
    elif found := MADE.match(run.manifest.origin or ""):
        n, name, seed = _number(found[1] or "1"), found[2], int(found[3])
        _check_samples(run, asked, (name, n, seed), verified)
    else:
        verified.note("the questions themselves are not checked; --questions FILE compares them with their file")


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def _check_samples(
    run: Run, questions: list[Question], origin_parts: tuple[str, int, int], verified: Verification
) -> None:
    (name, n, seed), settings = origin_parts, settings_of(run)
    if name not in known(settings) or origin(name, n, seed) != run.manifest.origin:
        verified.findings.append(Finding("the origin of the questions", run.manifest.origin, "existing samples"))
        return
    try:
        expected = samples(name, n, settings, seed)
    except SottovoceError as error:
        verified.note(f"the samples cannot be generated again: {error}")
        return
    kind = {"kind": settings.answers_in} if settings.answers_in else {}
    verified.findings += _compare(questions, [{**each, **kind} for each in expected])  # type: ignore[typeddict-item]


def _compare(questions: Sequence[Question], expected: Sequence[Question]) -> Iterator[Finding]:
    actual, right = ({question_id(each): each for each in group} for group in (questions, expected))
    for name in [*dict.fromkeys([*actual, *right])]:
        if name not in actual or name not in right:
            told = {True: "one", False: "none"}
            yield Finding("a question", told[name in actual], told[name in right], (f"question {name}",))
            continue
        for path, value, right_value in differences(actual[name], right[name]):
            yield Finding(f"the question's {path}", value, right_value, (f"question {name}",))
    if list(actual) != list(right) and actual.keys() == right.keys():
        yield Finding("the order of the questions", list(actual), list(right))
