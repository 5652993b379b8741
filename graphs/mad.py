"""MAD (Liang et al. 2023, arXiv 2305.19118): debate before a moderator, with adaptive break and a judge.

Affirmative, negative and further debaters speak one after another; each hears all messages since its
own last statement. Then the moderator names an answer, or leaves it open for the next round. After
the last round a judge, who has heard nothing yet, lists the candidates and chooses one.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, ClassVar, Literal, Unpack

from pydantic import Field

from sottovoce.core.bounds import Agents, Rounds
from sottovoce.core.text import counted
from sottovoce.graphs.scheme import Graph, GraphInputs, Scheme
from sottovoce.nodes.settings import Settings

SIDES = ("affirmative", "negative")


class MAD(Settings):
    """Two sides argue before a judge (MAD, Liang et al. 2023).

    A moderator can end the debate before the judge decides it.
    """

    acts: ClassVar[tuple[str, ...]] = ("answer", "revise", "moderate", "list_candidates", "judge")
    default_temperature: ClassVar[float | None] = 0.0

    agents: Agents = Field(default=2, ge=2, description="Number of debaters, not counting moderator and judge.")
    rounds: Rounds = Field(
        default=3, ge=1, description="Maximum number of rounds; the moderator may end the debate after any of them."
    )
    # Level 0 contradicts the negative's "you disagree", in the paper too, which measured it to show that it harms.
    disagreement: int = Field(
        default=2,
        ge=0,
        le=3,
        description="Disagreement asked of debaters: 0 (none), 1 (on most points), 2 (only for the sake of the right "
        "answer), 3 (on every point).",
    )
    judge_sees: Literal["all", "last", "first"] = Field(
        default="all", description="Rounds whose statements the judge reads: all, last or first."
    )

    def speakers(self) -> list[str]:
        """Return affirmative, negative, debater_3 .. debater_n, in the order in which they speak."""
        return [*SIDES, *(f"debater_{i + 1}" for i in range(2, self.agents))]

    def others(self) -> list[str]:
        """Return the moderator, and the judge, who is asked if the moderator names no answer."""
        return ["moderator", "judge"]


VERDICTS = {"decide": "settled", "next_round": "left open", "list_candidates": "left open in the last round"}


def after_verdict(state: Any) -> Literal["decide", "next_round", "list_candidates"]:
    """End with the moderator's answer, or with the judge after the last round."""
    from sottovoce.nodes.mad import settled

    if settled(state) is not None:
        return "decide"
    return "next_round" if state["round"] + 1 < state["settings"]["rounds"] else "list_candidates"


def create_mad(settings: MAD | None = None, **inputs: Unpack[GraphInputs]) -> Graph:
    """Return the uncompiled graph of MAD. Names in `models`: the debaters, "moderator", "judge"."""
    from sottovoce.graphs.frame import Frame  # late, as all that imports langgraph
    from sottovoce.nodes import mad as acts

    settings = MAD.parse(settings)
    frame = Frame(SCHEME, settings, **inputs, rule=acts.by_verdict)
    debaters = settings.speakers()
    frame.graph.add_edge("next_round", debaters[0])
    for debater, following in pairwise([*debaters, "moderator"]):
        frame.act(debater, acts.argue, role="debater", to=following)
    frame.act("moderator", acts.moderate, role="moderator", to=after_verdict, labels=VERDICTS)
    frame.act("list_candidates", acts.list_candidates, agent="judge", role="judge", to="judge")
    frame.act("judge", acts.judge, role="judge", to="decide")
    return frame.graph


def manner(settings: MAD) -> str:
    """Return a phrase that describes the debate."""
    held = f"{settings.agents} debaters, at most {counted(settings.rounds, 'round')}"
    seen = "" if settings.judge_sees == "all" else f" · the judge sees the {settings.judge_sees} round"
    return f"{held} · level of disagreement {settings.disagreement}{seen}"


SCHEME = Scheme(
    "mad",
    MAD,
    create_mad,
    headings={
        "list_candidates": "Candidates listed by the judge after round {round}",
        "judge": "The judge's choice after round {round}",
    },
    manner=manner,
)
make_graph = SCHEME.make_graph
