"""Search for the agents' temperatures with optuna's TPE, or over a grid, on a validation part.

FOLDER/tune.json       all trials, the best one, and its score on held-out questions
FOLDER/optuna.jsonl    optuna's journal, for a search without a grid
FOLDER/map.svg, .csv   the temperature map (see `temperature_map`); for the other files see `study`
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any, Literal

from sottovoce.analysis.statistics import Share, share
from sottovoce.core.errors import UsageError
from sottovoce.experiments.rows import Prepared
from sottovoce.experiments.search.space import Space, temperatures_of
from sottovoce.experiments.search.study import Study, about, opened_study
from sottovoce.experiments.search.temperature_map import Point, keep_map
from sottovoce.nodes.question import Question, question_id
from sottovoce.prompts import kinds
from sottovoce.runs.record import DiscussionRecord

FILE, JOURNAL = "tune.json", "optuna.jsonl"
Objective = Literal["decision", "first"]


@dataclass(frozen=True)
class Trial:
    """Temperatures and their scores."""

    name: str
    temperatures: tuple[float, ...]
    """Of the agents that discuss, in their order."""
    decision: Share
    """The mean score of the decisions."""
    first: Share | None
    """The share of the first speaker's last answers that are right; None if decisions do not contain them."""

    def value(self, objective: Objective) -> float:
        """Return the value that the search maximizes."""
        found = self.decision if objective == "decision" else self.first
        assert found is not None, "refused after the first trial"
        return found.value


@dataclass(frozen=True)
class Tuned:
    """The result of a search."""

    trials: tuple[Trial, ...]
    best: Trial
    """The earliest of equally good ones."""
    validation: int
    """The number of questions of a trial."""
    held_out: Trial | None
    """The best temperatures on the questions that no trial saw."""
    held_out_questions: int
    map: tuple[Point, ...]


def tune(
    study: Study, row: Prepared, space: Space, objective: Objective, part: float | None, *, wants_map: bool
) -> Tuned:
    """Search, or resume a search; the result is saved in the folder.

    Args:
        study: The folder.
        row: The scheme, settings and questions, without temperatures.
        space: The temperatures to try.
        objective: What to maximize: the score of decisions, or that of the first speaker's last answers.
        part: The share of the questions that trials use; None uses them all.
        wants_map: Also run each trial with its two temperatures swapped.

    Raises:
        UsageError: there are too few questions or only one agent, or the folder contains something else.
        RecordError, SottovoceError: see `Study.hold`.
    """
    space.check(row, wants_map=wants_map)
    seen, unseen = split(row.questions, part, row.settings.seed)
    given: dict[str, Any] = {"objective": objective, **space.told(final=bool(unseen))}  # Any: plain JSON
    given["held_out"] = [question_id(each) for each in unseen]
    shown = replace(row, questions=seen)
    with opened_study(study, about("tune", row, given)):
        trials = tuple(_trials(study, shown, space, objective))
        best = max(trials, key=lambda each: each.value(objective))
        last = (
            _held(study, replace(row, questions=unseen), f"held-out-{best.name}", best.temperatures) if unseen else None
        )
        points = _points(study, shown, trials, space) if wants_map else ()
        tuned = Tuned(trials, best, len(seen), last, len(unseen), points)
        study.keep(FILE, {"scheme": row.scheme, "objective": objective, **asdict(tuned)})
        keep_map(study.folder, points, space.values())
    return tuned


def split(questions: Sequence[Question], part: float | None, seed: int) -> tuple[list[Question], list[Question]]:
    """Return the validation part, drawn with a seed, and the rest; both keep their order.

    Raises:
        UsageError: one of the two would be empty.
    """
    if part is None:
        return list(questions), []
    n = round(part * len(questions))
    if not 0 < n < len(questions):
        raise UsageError(
            f"a validation part of {part:g} of {len(questions)} questions leaves one part empty; give more"
        )
    chosen = {*random.Random(f"validation/{seed}").sample(range(len(questions)), n)}
    parts: tuple[list[Question], list[Question]] = ([], [])
    for place, question in enumerate(questions):
        parts[place not in chosen].append(question)
    return parts


def _trials(study: Study, row: Prepared, space: Space, objective: Objective) -> Iterator[Trial]:
    if (values := space.values()) is not None:
        for n, pair in enumerate(product(values, repeat=len(row.settings.speakers()))):
            yield _checked(_held(study, row, f"grid-{n}", pair), objective)
        return
    with space.journal(study.folder / JOURNAL, row) as asked:
        for number, temperatures, tell in asked:
            trial = _checked(_held(study, row, f"trial-{number}", temperatures), objective)
            tell(trial.value(objective))
            yield trial


def _checked(trial: Trial, objective: Objective) -> Trial:
    if objective == "first" and trial.first is None:
        raise UsageError(
            "the decisions of this scheme do not contain the first speaker's answer; use --objective decision"
        )
    return trial


def _held(study: Study, row: Prepared, name: str, temperatures: Sequence[float]) -> Trial:
    settings = row.settings.model_copy(update={"temperature": list(temperatures)})
    records = list(study.hold(replace(row, name=name, settings=settings)).records.values())
    first = [_of_first(record, settings.speakers()[0]) for record in records]
    right = [each for each in first if each is not None]
    told = share(right) if len(right) == len(records) else None
    return Trial(name, tuple(temperatures), share([_score(record) for record in records]), told)


def _score(record: DiscussionRecord) -> float:
    assert record.decision is not None and record.decision["score"] is not None, "refused before"
    return record.decision["score"]


def _of_first(record: DiscussionRecord, speaker: str) -> float | None:
    """Return 1 if the speaker's last answer is right, else 0; None if there is none or the question has no target."""
    assert record.decision is not None, "failures were refused"
    votes = [vote for vote in record.decision["votes"] if vote["agent"] == speaker]
    if not votes or record.question.get("target") is None:
        return None
    return float(kinds.right(votes[-1]["answer"], record.question))


def _points(study: Study, row: Prepared, trials: Sequence[Trial], space: Space) -> tuple[Point, ...]:
    """Return a point for each trial, with its swapped counterpart; a grid already contains both orders."""
    by_pair = {trial.temperatures: trial for trial in trials}
    found = []
    for trial in trials:
        other = temperatures_of(trial.temperatures[::-1])
        swapped = by_pair.get(other) or _held(study, row, f"{trial.name}-swapped", other)
        if trial.first is None or swapped.first is None:
            raise UsageError("the decisions of this scheme do not contain the first speaker's answer; drop --map")
        found.append(Point(trial.temperatures, trial.first, swapped.first))
    return tuple(found)
