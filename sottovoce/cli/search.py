"""Searches of layers and temperatures, and tables of their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

from sottovoce.analysis.statistics import check_installed
from sottovoce.channels import PROTOCOLS
from sottovoce.cli.command import typed
from sottovoce.cli.option_models import LayersOptions, TuneOptions
from sottovoce.cli.run_screen import shown_row
from sottovoce.core.errors import UsageError
from sottovoce.core.text import counted, figure, one_line, shortened
from sottovoce.datasets.question_source import QuestionOptions, questions_of
from sottovoce.datasets.trained import check_trained
from sottovoce.experiments.rows import Row
from sottovoce.experiments.search.layers import Ranked, Ranking, rank
from sottovoce.experiments.search.study import Study
from sottovoce.experiments.search.tune import Space, Trial, Tuned, tune
from sottovoce.graphs import scheme as scheme_named
from sottovoce.report.tables import interval, share_cells, show, table
from sottovoce.runs.job import resumable
from sottovoce.runs.limits import Limits
from sottovoce.settings import Settings

Results = TypeVar("Results")
TRIALS = "trial | temperatures | decision | 95 % | first debater | 95 %"
SHOWN = 10
HEADINGS = "layer | questions | accuracy | 95 %", "layer | questions | EM + F1 | 95 % | EM | F1"


def search_layers(options: LayersOptions, settings: Settings, source: QuestionOptions, limits: Limits) -> None:
    """Rank a model's layers and print the ranking."""
    row = _prepared(options.scheme, _scheme_settings(options, settings), source)
    show(layers_table(_run(options.save, limits, lambda study: rank(study, row, halve=options.halving))))
    print(f"saved in {one_line(str(options.save))}")


def _scheme_settings(options: LayersOptions, settings: Settings) -> Settings:
    values = {name: getattr(settings, name) for name in settings.model_fields_set}
    if values.get("layers"):
        raise UsageError("--layers was given, but this search chooses the layers; drop it")
    if "layers" not in PROTOCOLS[values.setdefault("protocol", "sde")].Options.model_fields:
        raise UsageError(f"protocol is {values['protocol']!r}, which reads no layers; expected sde or hidden")
    more = options.model_dump(include={"agents", "rounds"}, exclude_none=True)
    return scheme_named(options.scheme).settings.model_validate({**values, **more})


def layers_table(ranking: Ranking) -> str:
    """Return the ranking in Markdown, its cost, and the option to use."""
    first, usual = ranking.layers[0], " ".join(map(str, ranking.usual))
    share = ranking.discussions / ranking.exhaustive
    best = [
        str(layer.layer) for layer in ranking.layers if (layer.score, layer.questions) == (first.score, first.questions)
    ]
    return "\n".join(
        [
            table(HEADINGS[first.overlap is not None], map(_layer_cells, ranking.layers)),
            "",
            f"{ranking.discussions:,} discussions, {share:.0%} of an exhaustive search",
            *_ties(best, len(ranking.layers), "layer"),
            f"use it with `--layers {first.layer}`; the default is {usual}",
        ]
    )


def _layer_cells(layer: Ranked) -> list[str]:
    parts = [] if layer.overlap is None else [figure(layer.exact), figure(layer.overlap)]
    return [str(layer.layer), str(layer.questions), figure(layer.score), interval(layer.low, layer.high), *parts]


def search_temperatures(
    scheme: str, settings: Settings, source: QuestionOptions, options: TuneOptions, limits: Limits
) -> None:
    """Search the temperatures of the agents that discuss, and print the results."""
    row = _prepared(scheme, settings, source)
    space = Space(options.from_, options.to, options.grid, options.trials)
    search = partial(
        tune, row=row, space=space, objective=options.objective, part=options.validation, wants_map=options.map
    )
    show(trials_table(_run(options.save, limits, search), options.objective))
    print(f"saved in {one_line(str(options.save))}")


def trials_table(tuned: Tuned, objective: Literal["decision", "first"]) -> str:
    """Return the best trials in Markdown, the score of the best on held-out questions, and the options to use."""
    ranked = sorted(tuned.trials, key=lambda trial: -trial.value(objective))
    lines = [table(TRIALS, map(_trial_cells, ranked[:SHOWN])), ""]
    if len(ranked) > SHOWN:
        lines.append(f"and {counted(len(ranked) - SHOWN, 'trial')} more in tune.json")
    validation = counted(tuned.validation, "question")
    lines.append(f"validation part: {validation}; the best of many trials looks better than it is")
    if (last := tuned.held_out) is not None:
        value, interval = share_cells(last.decision if objective == "decision" else last.first)
        lines.append(f"on {counted(tuned.held_out_questions, 'question')} that no trial saw: {value}, 95 % {interval}")
    if tuned.map:
        lines.append("the temperature map is in map.svg and map.csv")
    best = [trial.name for trial in tuned.trials if trial.value(objective) == tuned.best.value(objective)]
    temperatures = " ".join(f"--temperature {value:g}" for value in tuned.best.temperatures)
    return "\n".join([*lines, *_ties(best, len(ranked), "trial"), f"use it with `{temperatures}`"])


def _trial_cells(trial: Trial) -> list[str]:
    temperatures = ", ".join(f"{value:g}" for value in trial.temperatures)
    return [trial.name, temperatures, *share_cells(trial.decision), *share_cells(trial.first)]


def _ties(best: Sequence[str], of: int, noun: str) -> list[str]:
    if len(best) == 1:
        return []
    names = shortened(", ".join(best))
    return [f"{len(best)} of {counted(of, noun)} are equally good on these questions: {names}; {best[0]} is the first"]


def _prepared(scheme: str, settings: Settings, source: QuestionOptions) -> Row:
    check_installed()
    check_trained(scheme, settings, typed(), asks=source.chosen)
    questions, origin = questions_of(source, settings)
    if source.seeds:
        raise UsageError("--seeds were given; a search asks each question once, under --seed")
    return Row("", scheme, settings, questions, [settings.seed], origin.words)


def _run(folder: Path, limits: Limits, search: Callable[[Study], Results]) -> Results:
    with resumable(f"all messages are saved in {str(folder)!r}"):
        return search(Study(folder, limits, shown_row))
