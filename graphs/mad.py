"""MAD (Liang et al. 2023, arXiv 2305.19118): debate before a moderator, with adaptive break and a judge.

Affirmative, negative and further debaters speak one after another; each hears all messages since its
own last statement. Then the moderator names an answer, or leaves it open for the next round. After
the last round a judge, who has heard nothing yet, lists the candidates and chooses one.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal, Unpack

from sottovoce.core.text import counted
from sottovoce.graphs.scheme import Graph, GraphInputs, Scheme
from sottovoce.settings import MAD

VERDICTS = {"decide": "settled", "next_round": "left open", "list_candidates": "left open in the last round"}


def after_verdict(state: Any) -> Literal["decide", "next_round", "list_candidates"]:
    """End with the moderator's answer, or with the judge after the last round."""
    from sottovoce.nodes.mad import settled

    if settled(state) is not None:
        return "decide"
    return "next_round" if state["round"] + 1 < state["settings"]["rounds"] else "list_candidates"


def create_mad(settings: MAD | None = None, **inputs: Unpack[GraphInputs]) -> Graph:
    """Return the uncompiled graph of MAD. Names in `models`: the debaters, "moderator", "judge"."""
    from sottovoce.graphs.runtime.frame import Frame  # late, as all that imports langgraph
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
