"""Searches of temperatures and layers by optuna; each trial is a run, and all runs are in one folder.

FOLDER/runs/NAME/    the run of each trial, without payloads once it ends: 30 layers would take 20 GB
FOLDER/trials.csv    optuna's table of the trials; its plots are beside it, as SVG

The study itself is in memory. The same seed and scores give the same study, so the same command repeats it from the
saved runs and continues. A run with other settings or questions is refused. Layers are searched by discussions with one
layer at a time (SDE, arXiv 2506.19209, Table 6). They are 0-based; the last one is never tried, because no layer reads
a delta that is added after it.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from statistics import fmean

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.analysis.statistics import imported
from sottovoce.core.any_types import Untyped
from sottovoce.core.errors import SottovoceError, UsageError
from sottovoce.core.files import check_folder, write
from sottovoce.experiments.rows import Row
from sottovoce.experiments.runner import RowRunner
from sottovoce.nodes.context import Models, made_from
from sottovoce.nodes.question import Question, content_of, question_id, same_questions
from sottovoce.nodes.settings import Settings
from sottovoce.runs.limits import Limits
from sottovoce.runs.measures import answer_measures
from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.run import PAYLOADS
from sottovoce.runs.runner import Show

PARTS = (16, 4, 1)
"""Halving asks a sixteenth of the questions first, then a quarter, then all; the best quarter of layers goes on."""


class Search:
    """The trials of a search, each a run in its folder."""

    def __init__(
        self, folder: Path, row: Row, limits: Limits | None = None, show: Show | None = None, models: Models = None
    ) -> None:
        """Open the folder; `row` is common to all trials.

        Raises:
            UsageError: another command made the folder, or a question has no target.
        """
        check_folder(folder, "--save", "")
        if nameless := [question for question in row.questions if "target" not in question and "game" not in question]:
            wrong = f"question {question_id(nameless[0])!r} has no target, so trials cannot be ranked; drop it"
            raise UsageError(wrong)
        first = same_questions({question_id(each): content_of(each) for each in row.questions})
        self.copies: dict[str, list[Question]] = {name: [] for name in first.values()}
        """The questions by their clusters: those of one content have several ids."""
        for question in row.questions:
            self.copies[first[question_id(question)]].append(question)
        self.clusters = [name for name, alike in self.copies.items() for _ in alike]
        """The cluster of each score of a trial."""
        self.folder, self.row = folder, replace(row, questions=[*chain(*self.copies.values())])
        self._runner = RowRunner(folder / "runs", limits, show, models)

    def ask(self, name: str, questions: Sequence[Question], **settings: object) -> list[DiscussionRecord]:
        """Return the discussions of a trial with these settings; a run that has ended is read without a model.

        Raises:
            SottovoceError: a discussion failed: a score without it would mislead the search.
            LimitReached, RecordError: see `RowRunner.run`.
        """
        chosen = self.row.settings.model_copy(update=settings)
        run = self._runner.run(replace(self.row, name=name, settings=chosen, questions=list(questions)))
        records = [*run.records.values()]
        if failed := [record for record in records if record.status == "failed"]:
            raise SottovoceError(
                f"{len(failed)} of {len(records)} discussions of {name} failed; the first error: {failed[0].error}; "
                "run the same command to try them again"
            )
        shutil.rmtree(self._runner.folder / name / PAYLOADS, ignore_errors=True)
        return records

    def optimize(self, study: Untyped, objective: Untyped, trials: int) -> Untyped:
        """Return optuna's study after these trials; its table and a plot are saved."""
        import matplotlib.pyplot as plt  # late: it takes a second

        study.optimize(objective, n_trials=trials)
        columns = ("number", "value", "params", "state")
        write(self.folder / "trials.csv", study.trials_dataframe(columns).to_csv(index=False))
        with plt.rc_context({"svg.hashsalt": "sottovoce"}), warnings.catch_warnings():  # the same bytes each time
            warnings.simplefilter("ignore")  # these plots are called experimental
            visual = _optuna().visualization.matplotlib
            axes = (visual.plot_contour if len(study.best_params) == 2 and trials > 1 else visual.plot_slice)(study)
            figure = (axes if hasattr(axes, "figure") else axes.flat[0]).figure
            figure.savefig(self.folder / "trials.svg", metadata={"Date": None})
            plt.close(figure)
        return study


def tune(search: Search, low: float, high: float, grid: int | None, trials: int) -> Untyped:
    """Return a study of the agents' temperatures: by optuna's TPE, or in a `grid` of values for each agent.

    A trial's `scores` are those of the decisions, its value their mean.

    Raises:
        UsageError: fewer than two agents discuss, or temperatures are set.
    """
    settings, optuna = search.row.settings, _optuna()
    speakers = settings.speakers()
    if len(speakers) < 2:
        raise UsageError(
            f"the number of agents that discuss in {search.row.scheme} is {len(speakers)}; expected at least 2: "
            "choose another scheme, or raise --agents"
        )
    if settings.temperature:
        raise UsageError("--temperature was given, but temperatures are searched; drop it, or use --from and --to")
    if not 0 <= low < high:
        raise UsageError(f"temperatures are searched from {low:g} to {high:g}; expected 0 <= from < to")

    def run(trial: Untyped) -> float:
        values = [round(trial.suggest_float(name, low, high, step=None if grid else 0.01), 2) for name in speakers]
        name = "-".join(["trial", *(f"{value:g}" for value in values)])
        records = search.ask(name, search.row.questions, temperature=values)
        trial.set_user_attr("scores", [_decided(each) for each in records])
        return fmean(trial.user_attrs["scores"])

    if grid:
        values = [round(low + (high - low) * n / (grid - 1), 2) for n in range(grid)]
        sampler, trials = optuna.samplers.GridSampler(dict.fromkeys(speakers, values)), grid ** len(speakers)
    else:
        sampler = optuna.samplers.TPESampler(seed=settings.seed)
    return search.optimize(optuna.create_study(direction="maximize", sampler=sampler), run, trials)


def layers(search: Search, *, halving: bool) -> Untyped:
    """Return a study of the model's layers: all questions for each, or by optuna's successive halving.

    A trial's `scores` belong to its questions so far. Its `parts` are EM and F1 of free text; their sum is the score.

    Raises:
        UsageError: the agents have no common number of layers, or a model's layers cannot be reached.
    """
    optuna, questions = _optuna(), [*search.copies.values()]
    count, usual = _layers(search.row.settings)
    order = sorted(range(count - 1), key=lambda layer: (abs(layer - usual[0]), layer))  # the likeliest first
    ends = sorted({max(1, len(questions) // part) for part in PARTS}) if halving else [len(questions)]

    def run(trial: Untyped) -> float:
        layer, scores, parts = trial.suggest_int("layer", 0, count - 2), list[float](), list[tuple[float, float]]()
        for start, end in zip([0, *ends], ends, strict=False):
            for record in search.ask(f"layer-{layer}-to-{end}", [*chain(*questions[start:end])], layers=(layer,)):
                score, halves = _scored(record)
                scores.append(score)
                parts += [halves] if halves else []
            trial.set_user_attr("scores", scores)
            trial.set_user_attr("parts", parts)
            trial.report(fmean(scores), end)
            if end < ends[-1] and trial.should_prune():
                raise optuna.TrialPruned
        return fmean(scores)

    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=ends[0], reduction_factor=4)
    study = optuna.create_study(direction="maximize", pruner=pruner if halving else optuna.pruners.NopPruner())
    for layer in order:
        study.enqueue_trial({"layer": layer})
    return search.optimize(study, run, len(order))


def _scored(record: DiscussionRecord) -> tuple[float, tuple[float, float] | None]:
    """Return EM + F1 for free text, as the paper's appendix ranks layers, with both; else the decision's score."""
    score = _decided(record)
    measures = answer_measures(record.question, record.decision) if record.decision else {}
    return (measures["EM"] + measures["F1"], (measures["EM"], measures["F1"])) if measures else (score, None)


def _decided(record: DiscussionRecord) -> float:
    score = record.decision["score"] if record.decision else None
    assert score is not None, "failures and questions without a target were refused"
    return score


def _layers(settings: Settings) -> tuple[int, tuple[int, ...]]:
    """Return the model's number of layers and its default ones."""
    found = []
    for agent in settings.names():
        if agent in settings.human:
            raise UsageError(f"layers need a model, and {agent} is a human; drop --human")
        model = made_from(settings, agent)
        if not isinstance(model, HookedChatModel):
            raise UsageError(f"{settings.of('model', agent)!r} is a hosted model, whose layers cannot be reached")
        found.append(model.loaded)
    if len({model.layers for model in found}) > 1:
        raise UsageError(
            "the agents' models have different numbers of layers; search the layers of one model at a time"
        )
    if found[0].layers < 3:
        raise UsageError(
            f"{found[0].name!r} has {found[0].layers} layers, and the last is never read: nothing to choose"
        )
    return found[0].layers, found[0].latent_layers()


def _optuna() -> Untyped:
    optuna = imported("optuna", "searches")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna
