"""Options of the searches for layers and temperatures, apart from the searches, which load more."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field

from sottovoce.core.bounds import Agents, Few, Rounds
from sottovoce.core.validation import Checked

SAVE = "Save its runs and results in this folder; the same command resumes there."


class LayersOptions(Checked):
    """Options of the search for layers."""

    model_config = ConfigDict(title="Layers")

    scheme: Literal["ia", "debate"] = Field(default="ia", description="The scheme to run; SDE's authors used ia.")
    halving: bool = Field(
        default=False,
        description="Run a tenth of the discussions: few questions for all layers, more for the better half.",
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
    map: bool = Field(
        default=False, description="Draw CIPHER's map for two agents: the first one's last answer in both orders."
    )
    save: Path = Field(description=SAVE)
