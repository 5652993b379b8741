"""Search for the agents' temperatures with optuna's TPE, or over a grid, on a validation part.

FOLDER/tune.json        all trials, the best one, and its score on held-out questions
FOLDER/map.svg, .csv    the temperature map (CIPHER, arXiv 2310.06272, Fig. 5): how often the first debater's last
                        answer is right, by the two temperatures, and again with agents swapped; see also `study`
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Literal

from sottovoce.analysis.statistics import Share, share
from sottovoce.core.any_types import JSON
from sottovoce.core.errors import UsageError
from sottovoce.core.outputs import write
from sottovoce.experiments.rows import Row
from sottovoce.experiments.search.plots import heat_map
from sottovoce.experiments.search.study import Study
from sottovoce.nodes.question import Question, question_id
from sottovoce.prompts import kinds
from sottovoce.runs.record import DiscussionRecord

FILE, MAP_TABLE, MAP_PLOT = "tune.json", "map.csv", "map.svg"
MAP_COLUMNS = (
    "first_temperature", "second_temperature", "first", "first_low", "first_high",
    "swapped", "swapped_low", "swapped_high",
)  # fmt: skip
Objective = Literal["decision", "first"]
NO_FIRST = "the decisions of this scheme do not contain the first speaker's answer"
PLACES = 2
"""Decimal places of a temperature, as in the papers' tables."""
Temperatures = tuple[float, ...]
"""One temperature for each agent that discusses, in their order."""


@dataclass(frozen=True)
class Space:
    """A range of temperatures, in hundredths."""

    low: float
    high: float
    grid: int | None
    """Number of values for each agent, tried in all combinations; None lets optuna choose."""
    trials: int

    def check(self, row: Row, *, wants_map: bool) -> None:
        """Check that these temperatures can be searched.

        Raises:
            UsageError: the range or grid is invalid, there is only one agent, or temperatures are already set.
        """
        speakers = row.settings.speakers()
        if len(speakers) < 2:
            raise UsageError(
                f"{row.scheme} has {len(speakers)} agent that discusses; expected at least two: "
                "choose another scheme, or raise --agents"
            )
        if row.settings.temperature:
            raise UsageError("--temperature was given, but temperatures are searched; drop it, or use --from and --to")
        if wants_map and len(speakers) != 2:
            raise UsageError(f"a temperature map needs two agents, and {len(speakers)} discuss; drop --map")
        if not 0 <= self.low < self.high:
            raise UsageError(f"temperatures are searched from {self.low:g} to {self.high:g}; expected 0 <= from < to")
        if (self.low, self.high) != _rounded((self.low, self.high)):
            raise UsageError(f"temperatures are searched from {self.low} to {self.high}; expected hundredths")
        if self.grid is not None and len({*(self.values() or ())}) < self.grid:
            raise UsageError(f"--grid {self.grid} is finer than hundredths from {self.low:g} to {self.high:g}")

    def values(self) -> Temperatures | None:
        """Return an agent's temperatures in a grid, both ends included; None without a grid."""
        if self.grid is None:
            return None
        step = (self.high - self.low) / (self.grid - 1)
        return _rounded([self.low + step * n for n in range(self.grid)])

    def propose(
        self, speakers: Sequence[str], results: Sequence[tuple[Temperatures, float]], seed: int
    ) -> Temperatures:
        """Return the temperatures that optuna proposes after trials with these results.

        They follow from the results and the seed alone, so that a resumed search continues like an uninterrupted one.

        Raises:
            UsageError: the extra `eval` is not installed.
        """
        try:
            import optuna
        except ImportError as error:
            raise UsageError("tune needs the extra 'eval', which is not installed: pip install optuna") from error
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        distributions: dict[str, optuna.distributions.BaseDistribution] = {
            name: optuna.distributions.FloatDistribution(self.low, self.high, step=10**-PLACES) for name in speakers
        }
        sampler = optuna.samplers.TPESampler(seed=random.Random(f"tune/{seed}/{len(results)}").getrandbits(32))
        study = optuna.create_study(direction="maximize", sampler=sampler)
        for temperatures, value in results:
            params = dict(zip(speakers, temperatures, strict=True))
            study.add_trial(optuna.create_trial(params=params, distributions=distributions, value=value))
        proposal = study.ask(distributions)
        return _rounded([proposal.params[name] for name in speakers])


def _rounded(values: Sequence[float]) -> Temperatures:
    return tuple(round(value, PLACES) for value in values)


@dataclass(frozen=True)
class Trial:
    """Temperatures and their scores."""

    name: str
    temperatures: Temperatures
    decision: Share
    """The mean score of the decisions."""
    first: Share | None
    """The share of the first speaker's last answers that are right; None if decisions do not contain them."""

    def value(self, objective: Objective) -> float:
        """Return the value that the search maximizes."""
        objective_share = self.decision if objective == "decision" else self.first
        assert objective_share is not None, "refused after the first trial"
        return objective_share.value


@dataclass(frozen=True)
class Point:
    """Two temperatures, and how often the first debater's last answer is right."""

    temperatures: Temperatures
    first: Share
    swapped: Share
    """The same with the two temperatures swapped."""


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


def tune(study: Study, row: Row, space: Space, objective: Objective, part: float | None, *, wants_map: bool) -> Tuned:
    """Search, or resume a search; the result is saved in the folder.

    Args:
        study: The folder.
        row: The scheme, settings and questions, without temperatures.
        space: The temperatures to try.
        objective: The score to maximize: of decisions, or of the first speaker's last answers.
        part: The share of the questions that trials use; None uses them all.
        wants_map: Also run each trial with its two temperatures swapped.

    Raises:
        UsageError: there are too few questions or only one agent, or the folder contains something else.
        RecordError, SottovoceError: see `Study.run`.
    """
    space.check(row, wants_map=wants_map)
    seen, unseen = split(row.questions, part, row.settings.seed)
    options: JSON = {"objective": objective, "from": space.low, "to": space.high, "grid": space.grid}
    if unseen and space.grid is None:
        options["trials"] = space.trials  # more trials would test on held-out questions a second time
    options["held_out"] = [question_id(question) for question in unseen]
    validation = replace(row, questions=seen)
    with study.opened("tune", row, options):
        trials = tuple(_trials(study, validation, space, objective))
        best = max(trials, key=lambda result: result.value(objective))
        held_out = None
        if unseen:
            held_out = _run_trial(study, replace(row, questions=unseen), f"held-out-{best.name}", best.temperatures)
        points = _points(study, validation, trials) if wants_map else ()
        tuned = Tuned(trials, best, len(seen), held_out, len(unseen), points)
        study.save(FILE, {"scheme": row.scheme, "objective": objective, **asdict(tuned)})
        if points:
            _save_map(study.folder, points, space.values())
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


def _trials(study: Study, row: Row, space: Space, objective: Objective) -> Iterator[Trial]:
    speakers, trials = row.settings.speakers(), list[Trial]()
    grid = space.values()
    proposals = [*product(grid, repeat=len(speakers))] if grid else [None] * space.trials
    for n, temperatures in enumerate(proposals):
        name = f"{'grid' if grid else 'trial'}-{n}"
        if temperatures is None and (run := study.started(name)):  # another version of optuna might propose others
            temperatures = tuple(run.manifest.settings["temperature"])
        elif temperatures is None:
            results = [(trial.temperatures, trial.value(objective)) for trial in trials]
            temperatures = space.propose(speakers, results, row.settings.seed)
        trials.append(_run_trial(study, row, name, temperatures))
        if objective == "first" and trials[-1].first is None:
            raise UsageError(f"{NO_FIRST}; use --objective decision")
        yield trials[-1]


def _run_trial(study: Study, row: Row, name: str, temperatures: Temperatures) -> Trial:
    settings = row.settings.model_copy(update={"temperature": list(temperatures)})
    records = study.run(replace(row, name=name, settings=settings)).records.values()
    decisions = [record.decision for record in records if record.decision is not None]  # failures were refused
    first = [_is_last_answer_right(record, settings.speakers()[0]) for record in records]
    known = [is_right for is_right in first if is_right is not None]
    scores = [decision["score"] for decision in decisions if decision["score"] is not None]
    return Trial(name, temperatures, share(scores), share(known) if len(known) == len(first) else None)


def _is_last_answer_right(record: DiscussionRecord, speaker: str) -> float | None:
    """Return 1 if the speaker's last answer is right, else 0; None if there is none or the question has no target."""
    votes = [vote for vote in record.decision["votes"] if vote["agent"] == speaker] if record.decision else []
    if not votes or record.question.get("target") is None:
        return None
    return float(kinds.right(votes[-1]["answer"], record.question))


def _points(study: Study, row: Row, trials: Sequence[Trial]) -> tuple[Point, ...]:
    """Return a point for each trial, with its swapped counterpart; a grid already contains both orders."""
    by_temperatures = {trial.temperatures: trial for trial in trials}
    points = list[Point]()
    for trial in trials:
        reverse = trial.temperatures[::-1]
        swapped = by_temperatures.get(reverse) or _run_trial(study, row, f"{trial.name}-swapped", reverse)
        if trial.first is None or swapped.first is None:
            raise UsageError(f"{NO_FIRST}; drop --map")
        points.append(Point(trial.temperatures, trial.first, swapped.first))
    return tuple(points)


def _save_map(folder: Path, points: Sequence[Point], grid: Sequence[float] | None) -> None:
    """Write the temperature map as a table and a plot."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(MAP_COLUMNS)
    for point in points:
        shares = [figure for part in (point.first, point.swapped) for figure in (part.value, part.low, part.high)]
        writer.writerow([*point.temperatures, *(f"{figure:.4f}" for figure in shares)])
    write(folder / MAP_TABLE, text.getvalue())
    panels = {
        "the first debater's last answer": {point.temperatures: point.first.value for point in points},
        "the same, order swapped": {point.temperatures: point.swapped.value for point in points},
    }
    heat_map(folder / MAP_PLOT, panels, grid)
