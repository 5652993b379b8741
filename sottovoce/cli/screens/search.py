"""The commands `experiment layers` and `experiment tune`: search settings, and print the results.

Nothing here imports torch or langgraph before a search runs: the command line reads the options.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ConfigDict, Field

from sottovoce.core.bounds import Agents, Few, Rounds
from sottovoce.core.errors import StoppedError, UsageError
from sottovoce.core.text import counted, figure, one_line, shortened
from sottovoce.core.validation import Checked
from sottovoce.datasets.question_source import QuestionOptions, questions_of
from sottovoce.datasets.trained import check_trained
from sottovoce.report.tables import share_cells, show, table
from sottovoce.runs.limits import Limits
from sottovoce.settings import Settings

if TYPE_CHECKING:
    from sottovoce.experiments.rows import Row
    from sottovoce.experiments.search.layers import Ranked, Ranking
    from sottovoce.experiments.search.tune import Trial, Tuned

SAVE = "save its runs and results in this folder; the same command resumes there"
TRIALS = "trial | temperatures | decision | 95 % | first debater | 95 %"
SHOWN = 10
HEADINGS = "layer | questions | accuracy | 95 %", "layer | questions | EM + F1 | 95 % | EM | F1"


class LayersOptions(Checked):
    """Options of the search for layers."""

    model_config = ConfigDict(title="Layers")

    scheme: Literal["ia", "debate"] = Field(default="ia", description="The scheme to run; SDE's authors used ia.")
    halving: bool = Field(
        default=False,
        description="Run a tenth of the discussions: few questions for all layers, more for the better half.",
    )
    agents: Agents | None = Field(default=None, description="As the scheme's own option.")
    rounds: Rounds | None = Field(default=None, description="As the scheme's own option.")
    save: Path | None = Field(default=None, description=SAVE)


def show_layers(options: LayersOptions, settings: Settings, asked: QuestionOptions, limits: Limits) -> None:
    """Rank a model's layers and print the ranking.

    Raises:
        UsageError: the request cannot be met, or the folder holds another search.
        SottovoceError: the search stopped; the same command resumes.
    """
    folder = _folder(options.save, "experiment layers --sample facts --limit 100")
    row = _prepared(options.scheme, _of_layers(options, settings), asked)
    # Late: torch takes seconds, and errors in the request are reported first.
    from sottovoce.experiments.search.layers import rank

    show(_layers_told(_held(folder, limits, lambda study: rank(study, row, halve=options.halving))))
    print(f"kept in {one_line(str(folder))}")


def _of_layers(options: LayersOptions, settings: Settings) -> Settings:
    """Return the scheme's own settings, with the protocol whose layers are searched."""
    from sottovoce.graphs import scheme

    given = {name: getattr(settings, name) for name in settings.model_fields_set}
    if given.get("layers"):
        raise UsageError("--layers was given, but layers are what is searched; drop it")
    if given.setdefault("protocol", "sde") not in ("sde", "hidden"):
        raise UsageError(f"protocol is {given['protocol']!r}, which reads no layers; expected sde or hidden")
    more = options.model_dump(include={"agents", "rounds"}, exclude_none=True)
    return scheme(options.scheme).settings.model_validate({**given, **more})


def _layers_told(ranking: Ranking) -> str:
    """Return the ranking in Markdown, its cost, and the option to use."""
    words = ranking.layers[0].overlap is not None
    told = table(HEADINGS[words], map(_ranked, ranking.layers))
    first, usual = ranking.layers[0], " ".join(map(str, ranking.usual))
    share = (
        f"{ranking.discussions:,} discussions, {ranking.discussions / ranking.exhaustive:.0%} of an exhaustive search"
    )
    equal = [
        str(each.layer) for each in ranking.layers if (each.score, each.questions) == (first.score, first.questions)
    ]
    ties = _ties(equal, len(ranking.layers), "layer")
    return "\n".join([told, "", share, *ties, f"use it with `--layers {first.layer}`; the default is {usual}"])


def _ranked(each: Ranked) -> list[str]:
    interval = "" if each.low is None or each.high is None else f"{figure(each.low)} to {figure(each.high)}"
    parts = [] if each.overlap is None else [figure(each.exact), figure(each.overlap)]
    return [str(each.layer), str(each.questions), figure(each.score), interval, *parts]


class TuneOptions(Checked):
    """Options of the search for temperatures."""

    model_config = ConfigDict(title="Tune")

    trials: Few = Field(default=30, ge=1, description="Number of temperatures to try, as proposed by optuna's TPE.")
    grid: Few | None = Field(
        default=None, ge=2, description="Try this many values for each agent instead, in all combinations."
    )
    from_: float = Field(default=0.05, description="The lowest temperature, a multiple of 0.01.")
    to: float = Field(default=1.5, description="The highest temperature, a multiple of 0.01.")
    objective: Literal["decision", "first"] = Field(
        default="decision",
        description="The answer that is scored: the decision, or the first debater's last answer (CIPHER).",
    )
    validation: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="Search on this share of the questions, drawn by --seed, and test the best once on the rest; "
        "by default search on all questions.",
    )
    map: bool = Field(
        default=False, description="Draw CIPHER's map for two agents: the first one's last answer in both orders."
    )
    save: Path | None = Field(default=None, description=SAVE)


def show_tune(scheme: str, settings: Settings, asked: QuestionOptions, options: TuneOptions, limits: Limits) -> None:
    """Search the temperatures of the agents that discuss, and print the results. Errors: see `show_layers`."""
    folder = _folder(options.save, "experiment tune debate --sample arithmetic --limit 100")
    row = _prepared(scheme, settings, asked)
    # Late: see `show_layers`.
    from sottovoce.experiments.search.tune import Space, tune

    space = Space(options.from_, options.to, options.grid, options.trials)
    search = partial(
        tune, row=row, space=space, objective=options.objective, part=options.validation, wants_map=options.map
    )
    show(_tuned_told(_held(folder, limits, search), options.objective))
    print(f"kept in {one_line(str(folder))}")


def _tuned_told(found: Tuned, objective: Literal["decision", "first"]) -> str:
    """Return the best trials in Markdown, the score of the best on held-out questions, and the options to use."""
    ranked = sorted(found.trials, key=lambda trial: -trial.value(objective))
    told = [table(TRIALS, map(_trial, ranked[:SHOWN]))]
    if len(ranked) > SHOWN:
        told.append(f"and {counted(len(ranked) - SHOWN, 'trial')} more in tune.json")
    told.append(
        f"validation part: {counted(found.validation, 'question')}; the best of many trials looks better than it is"
    )
    if (last := found.held_out) is not None:
        value, interval = share_cells(last.decision if objective == "decision" else last.first)
        told.append(f"on {counted(found.held_out_questions, 'question')} that no trial saw: {value}, 95 % {interval}")
    if found.map:
        told.append("the temperature map is in map.svg and map.csv")
    equal = [trial.name for trial in found.trials if trial.value(objective) == found.best.value(objective)]
    told += _ties(equal, len(ranked), "trial")
    options = " ".join(f"--temperature {value:g}" for value in found.best.temperatures)
    return "\n".join([told[0], "", *told[1:], f"use it with `{options}`"])


def _ties(best: Sequence[str], of: int, noun: str) -> list[str]:
    """Return a line that names the equally good trials or layers, if there are several."""
    if len(best) == 1:
        return []
    names = shortened(", ".join(best))
    return [f"{len(best)} of {counted(of, noun)} are equally good on these questions: {names}; {best[0]} is the first"]


def _trial(trial: Trial) -> list[str]:
    temperatures = ", ".join(f"{value:g}" for value in trial.temperatures)
    return [trial.name, temperatures, *share_cells(trial.decision), *share_cells(trial.first)]


def _folder(save: Path | None, example: str) -> Path:
    if save is None:
        raise UsageError(f"a search needs a folder, and none was given: {example} --save FOLDER")
    from sottovoce.analysis.statistics import check_installed

    check_installed()
    return save


def _prepared(scheme: str, settings: Settings, asked: QuestionOptions) -> Row:
    from sottovoce.experiments.rows import Row

    check_trained(scheme, settings)
    questions, origin = questions_of(asked, settings)
    if asked.seeds:
        raise UsageError("--seeds were given; a search asks each question once, under --seed")
    return Row("", scheme, settings, questions, [settings.seed], origin.words)


def _held(folder: Path, limits: Limits, search: Any) -> Any:  # Any: what a search takes and finds
    """Run a search; after a stop, the same command resumes it."""
    from sottovoce.cli.screens.experiment import shown_row
    from sottovoce.experiments.search.study import Study

    try:
        return search(Study(folder, limits, shown_row))
    except KeyboardInterrupt as stop:
        raise StoppedError(f"stopped; all messages are kept in {str(folder)!r}, and the same command resumes") from stop
