"""The commands `experiment tune` and `experiment layers`: their rows, and tables of their results."""

from __future__ import annotations

from collections.abc import Sequence

from sottovoce.analysis.statistics import check_installed, mean, share
from sottovoce.channels import PROTOCOLS
from sottovoce.cli.command import typed
from sottovoce.cli.option_models import LayersOptions, TuneOptions
from sottovoce.cli.run_screen import shown_row
from sottovoce.core.any_types import Untyped
from sottovoce.core.errors import UsageError
from sottovoce.core.text import counted, figure, one_line
from sottovoce.datasets.question_source import QuestionOptions, questions_of
from sottovoce.datasets.trained import check_trained
from sottovoce.experiments.rows import Row
from sottovoce.experiments.search import Search, layers, split, tune
from sottovoce.graphs import scheme as scheme_named
from sottovoce.nodes.question import question_id
from sottovoce.report.tables import interval, share_cells, show, table
from sottovoce.runs.job import resumable
from sottovoce.runs.limits import Limits
from sottovoce.settings import Settings

TRIALS = "temperatures | decision | 95 % | first debater | 95 %"
LAYERS = "layer | questions | score | 95 % | EM | F1"
LISTED = 10
"""Number of trials in the table; all are in trials.csv."""


def search_layers(options: LayersOptions, settings: Settings, source: QuestionOptions, limits: Limits) -> None:
    """Rank a model's layers and print the ranking, its cost, and the option to use."""
    values = {name: getattr(settings, name) for name in settings.model_fields_set}
    if values.get("layers"):
        raise UsageError("--layers was given, but this search chooses the layers; drop it")
    if "layers" not in PROTOCOLS[values.setdefault("protocol", "sde")].Options.model_fields:
        raise UsageError(f"protocol is {values['protocol']!r}, which reads no layers; expected sde or hidden")
    values |= options.model_dump(include={"agents", "rounds"}, exclude_none=True)
    row = _prepared(options.scheme, scheme_named(options.scheme).settings.model_validate(values), source)
    with resumable(f"all messages are saved in {str(options.save)!r}"):
        search = Search(options.save, row, {"halving": options.halving}, limits, shown_row)
        study = layers(search, halving=options.halving)
    ranked = sorted(study.trials, key=lambda trial: (-len(trial.user_attrs["scores"]), -trial.value))
    asked = sum(len(trial.user_attrs["scores"]) for trial in ranked)
    share_of_all = asked / len(ranked) / len(row.questions)
    best = [str(trial.params["layer"]) for trial in ranked if trial.value == ranked[0].value]
    lines = [table(LAYERS, map(_layer_cells, ranked)), "", f"{asked:,} discussions, {share_of_all:.0%} of all"]
    show("\n".join([*lines, *_ties(best), f"use it with `--layers {ranked[0].params['layer']}`"]))
    print(f"saved in {one_line(str(options.save))}")


def _layer_cells(trial: Untyped) -> list[str]:
    scores, parts = trial.user_attrs["scores"], trial.user_attrs["parts"]
    score = mean(scores)
    halves = [figure(sum(half) / len(half)) for half in zip(*parts, strict=True)] or ["", ""]
    return [str(trial.params["layer"]), str(len(scores)), figure(score.value), interval(score.low, score.high), *halves]


def search_temperatures(
    scheme: str, settings: Settings, source: QuestionOptions, options: TuneOptions, limits: Limits
) -> None:
    """Search the temperatures of the agents that discuss; print the best, and their score on held-out questions."""
    row = _prepared(scheme, settings, source)
    seen, unseen = split(row.questions, options.validation, settings.seed)
    about = options.model_dump(include={"from_", "to", "grid", "objective"})
    if unseen and options.grid is None:
        about["trials"] = options.trials  # more trials would test on held-out questions a second time
    with resumable(f"all messages are saved in {str(options.save)!r}"):
        search = Search(options.save, row, {**about, "held_out": [*map(question_id, unseen)]}, limits, shown_row)
        study = tune(search, options.from_, options.to, options.grid, options.trials, options.objective, seen)
        best = study.best_trial.params
        tested = search.scores("held-out", unseen, [*best.values()])[options.objective] if unseen else []
    ranked = sorted(study.trials, key=lambda trial: -trial.value)
    lines = [table(TRIALS, map(_trial_cells, ranked[:LISTED])), ""]
    lines.append(f"validation part: {counted(len(seen), 'question')}; the best of many trials looks better than it is")
    if tested:
        value, limits_of = share_cells(share(tested))
        lines.append(f"on {counted(len(unseen), 'question')} that no trial saw: {value}, 95 % {limits_of}")
    names = [_temperatures(trial) for trial in ranked if trial.value == ranked[0].value]
    use = " ".join(f"--temperature {value:g}" for value in best.values())
    show("\n".join([*lines, *_ties(names), f"use it with `{use}`"]))
    print(f"saved in {one_line(str(options.save))}")


def _trial_cells(trial: Untyped) -> list[str]:
    shares = [share(scores) if (scores := trial.user_attrs[name]) else None for name in ("decision", "first")]
    return [_temperatures(trial), *share_cells(shares[0]), *share_cells(shares[1])]


def _temperatures(trial: Untyped) -> str:
    return ", ".join(f"{value:g}" for value in trial.params.values())


def _ties(best: Sequence[str]) -> list[str]:
    return [f"equally good on these questions: {'; '.join(best)}"] if len(best) > 1 else []


def _prepared(scheme: str, settings: Settings, source: QuestionOptions) -> Row:
    check_installed()
    check_trained(scheme, settings, typed(), asks=source.chosen)
    questions, origin = questions_of(source, settings)
    if source.seeds:
        raise UsageError("--seeds were given; a search asks each question once, under --seed")
    return Row("", scheme, settings, questions, [settings.seed], origin.words)
