"""Models of options that a file of commands shares with the files that do the work, which load more."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field

from sottovoce.cli.options import argument
from sottovoce.core.bounds import Agents, Count, Few, Rounds
from sottovoce.core.errors import UsageError, command
from sottovoce.core.files import RUN, check_folder
from sottovoce.core.validation import Checked


class Output(Checked):
    """The wanted output of a run."""

    model_config = ConfigDict(title="Output")

    as_json: bool = Field(default=False, alias="json", description="Print one JSON object on stdout, and nothing else.")
    save: Path | None = Field(default=None, description="Save the run in this folder, not with those of `runs list`.")
    show_prompts: bool = Field(default=False, description="Also print the prompt of each message.")
    quiet: bool = Field(default=False, description="Print only the decision.")


def check_place(output: Output) -> None:
    """Check that the folder of `--save` can be written and has no run yet."""
    if output.save is not None:
        if (output.save / RUN).exists():
            again = command("runs", "resume", str(output.save))
            raise UsageError(f"{str(output.save)!r} already contains a run; take another, or continue: {again}")
        check_folder(output.save, "--save", RUN)


class ExperimentOptions(Checked):
    """The experiment, and how much of it to run."""

    model_config = ConfigDict(title="Experiment")

    file: Path = argument(
        "A YAML file of rows and questions, the folder of an experiment that has started, or a name of the list.",
        "FILE",
    )
    rows: list[str] = Field(
        default=[], description="Run only this row: ROW at all its points, ROW.POINT, or a pattern: '*.POINT'."
    )
    limit: Count | None = Field(default=None, ge=1, description="Ask only this many questions, from the first.")
    data: Path = Field(default=Path("data"), description="Folder of data sets, which a file calls {data}.")
    model: str | None = Field(default=None, description="Use this model instead of the file's, for all agents.")
    save: Path | None = Field(
        default=None, description="Save it in this folder, not with the other runs under the file's name."
    )


class ListOptions(Checked):
    """The experiment to describe."""

    name: str | None = argument("An experiment; if omitted, all are listed.", "NAME", default=None)


SAVE = "Save its runs and results in this folder; the same command resumes there."


class LayersOptions(Checked):
    """Options of the search for layers."""

    model_config = ConfigDict(title="Layers")

    scheme: Literal["ia", "debate"] = Field(default="ia", description="The scheme to run; SDE's authors used ia.")
    halving: bool = Field(
        default=False,
        description="Ask few questions with all layers, and more only with the best quarter (successive halving).",
    )
    agents: Agents | None = Field(default=None, description="Number of agents. If not set: the scheme's.")
    rounds: Rounds | None = Field(default=None, description="Number of rounds. If not set: the scheme's.")
    save: Path = Field(description=SAVE)


class TuneOptions(Checked):
    """Options of the search for temperatures."""

    model_config = ConfigDict(title="Tune")

    trials: Few = Field(default=30, ge=1, description="Number of temperatures to try, as proposed by optuna's TPE.")
    grid: Few | None = Field(
        default=None, ge=2, description="Try this many values for each agent instead, in all combinations."
    )
    from_: float = Field(default=0.05, description="Lowest temperature, a multiple of 0.01.")
    to: float = Field(default=1.5, description="Highest temperature, a multiple of 0.01.")
    objective: Literal["decision", "first"] = Field(
        default="decision",
        description="The answer that is scored: the decision, or the first debater's last answer (CIPHER).",
    )
    validation: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="Share of the questions to search on, drawn by --seed; the best is tested once on the rest. "
        "If not set: all questions, without a test.",
    )
    save: Path = Field(description=SAVE)
